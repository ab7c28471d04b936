-- KEYS[1] is what stands before all keys. ARGV: keep, how many at most. Answers {OK, {scope, ...}}: where there are more, any of them.
return { OK, read('SRANDMEMBER', P .. 'nanoctrl:topology_scopes', ARGV[2]) or {} }
