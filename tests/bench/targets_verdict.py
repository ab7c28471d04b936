# SPDX-License-Identifier: Apache-2.0
"""How bench/targets decides."""

import os
import tempfile
import unittest
import unittest.mock

from verdict import devices, verdict
from verdict.rows import AOF_OFF, P50, ROWS, Row, at_least, at_most, faster


class Decide(unittest.TestCase):
    def test_fewer_than_five_rounds_decide_nothing(self):
        self.assertIsNone(verdict.decide(at_least(1), [2, 2, 2, 2]))

    def test_both_quartiles_on_the_good_side_are_ok(self):
        self.assertEqual(verdict.decide(at_least(1), [0.5, 1.1, 1.2, 1.3, 1.4]), "ok")
        self.assertEqual(verdict.decide(at_most(1), [1.5, 0.9, 0.8, 0.7, 0.9]), "ok")

    def test_both_quartiles_on_the_bad_side_are_a_miss(self):
        self.assertEqual(verdict.decide(at_least(1), [0.5, 0.6, 0.7, 0.8, 2]), "MISS")

    def test_quartiles_around_the_target_take_up_to_fifteen_rounds(self):
        around = [0.8, 0.9, 1, 1.1, 1.2]
        self.assertIsNone(verdict.decide(at_least(1), around))
        self.assertEqual(verdict.decide(at_least(1), 3 * around), "unsettled")

    def test_faster_divides_the_other_way(self):
        self.assertEqual(faster(20).ratio(100, 5), 20)
        self.assertEqual(at_most(20).ratio(100, 5), 0.05)
        self.assertEqual(at_most(20).ratio(None, 5), 5)


SIDE = """#!/bin/sh
while read -r line; do
	echo '{"p50_us": %s}'
done
exit %d
"""


class Judge(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.write("two", SIDE % ("2", 0))
        self.write("three", SIDE % ("3", 0))
        self.write("words", SIDE % ("three", 0))
        self.write("absent", "#!/bin/sh\nexit 77\n")
        self.write("broken", "#!/bin/sh\nexit 1\n")
        self.write("number", "#!/bin/sh\nread -r line\necho 7\n")
        self.write("silent", "#!/bin/sh\nexec sleep 60 >&-\n")

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, 0o755)

    def judge(self, ours, reference, target):
        return verdict.judge(Row("row", ours, reference, P50, target), [self.folder])

    def test_on_emulated_processors_there_is_a_ratio_and_no_verdict(self):
        row = Row("row", "three", "two", P50, at_most(1))
        outcome = verdict.judge(row, [self.folder], emulated=True)
        self.assertEqual((outcome.ratio, outcome.verdict), (1.5, "emulated"))
        self.assertTrue(outcome.is_good())
        self.assertEqual(verdict.judge(row, [self.folder]).verdict, "MISS")

    def test_two_sides_take_five_turns_and_have_a_ratio(self):
        outcome = self.judge("three", "two", at_most(1.5))
        self.assertEqual((outcome.verdict, outcome.ratio, outcome.rounds), ("ok", 1.5, 5))
        self.assertEqual((outcome.reference, outcome.ours), (2, 3))

    def test_a_row_of_its_own_compares_the_figure(self):
        self.assertEqual(self.judge("three", None, at_most(2)).verdict, "MISS")

    def test_a_peer_that_is_not_installed_is_neither_met_nor_missed(self):
        for peer in ("absent", "baseline-that-was-not-built"):
            outcome = self.judge("three", peer, at_most(2))
            self.assertEqual(outcome.verdict, "not installed")
            self.assertTrue(outcome.is_good())

    def test_several_at_once_are_summed(self):
        row = Row("row", "three", "two", P50, at_least(1.5), at_once=2)
        outcome = verdict.judge(row, [self.folder])
        self.assertEqual((outcome.ours, outcome.ratio), (6, 3))

    def test_a_row_of_rdma_takes_the_devices_or_is_left_out(self):
        row = Row("row", "echo-devices", "echo-devices", P50, at_most(2), least=9, rdma=True)
        self.write("echo-devices", """#!/bin/sh
while read -r line; do
	[ "$1 $2 $3 $4" = "--device a --server-device b" ] && echo '{"p50_us": 1}'
done
""")
        outcome = verdict.judge(row, [self.folder], [("a", "b"), ("c", "d")])
        self.assertEqual((outcome.verdict, outcome.rounds), ("ok", 9))
        outcome = verdict.judge(row, [self.folder])
        self.assertEqual(outcome.verdict, "no rdma device")
        self.assertTrue(outcome.is_good())

    def test_a_row_of_rails_stands_beside_a_link_on_each(self):
        row = Row("row", "sum-devices", "sum-devices", P50, at_least(0.9), least=9, rdma=True, rails=2)
        self.write("sum-devices", """#!/bin/sh
case "$*" in
"--device a,c --server-device b,d --step") p50=10 ;;
"--device a --server-device b --step") p50=4 ;;
"--device c --server-device d --step") p50=6.5 ;;
esac
while read -r line; do
	echo "{\\"p50_us\\": $p50}"
done
""")
        outcome = verdict.judge(row, [self.folder], [("a", "b"), ("c", "d")])
        self.assertEqual((outcome.verdict, outcome.ours, outcome.reference), ("ok", 10, 10.5))
        self.assertEqual(verdict.judge(row, [self.folder], [("a", "b")]).verdict, "no rdma device")

    def test_a_side_that_breaks_fails_its_row(self):
        for side in ("broken", "words", "number", "no-such-program"):
            outcome = self.judge(side, "two", at_most(2))
            self.assertEqual(outcome.verdict, "FAILED")
            self.assertFalse(outcome.is_good())

    @unittest.mock.patch("verdict.side.END_S", 0.1)
    def test_a_side_that_says_no_more_and_does_not_end_fails_its_row(self):
        outcome = self.judge("silent", None, at_most(2))
        self.assertEqual((outcome.verdict, outcome.why), ("FAILED", "silent: it closed its output and did not end"))


class Devices(unittest.TestCase):
    def test_those_whose_port_is_up_are_taken_in_their_order(self):
        with tempfile.TemporaryDirectory() as root:
            for name, state in (("c", "4: ACTIVE"), ("a", "4: ACTIVE"), ("b", "1: DOWN")):
                os.makedirs(os.path.join(root, name, "ports", "1"))
                with open(os.path.join(root, name, "ports", "1", "state"), "w", encoding="ascii") as f:
                    f.write(state)
            self.assertEqual(devices.active(root), ["a", "c"])

    def test_one_device_is_both_and_names_win(self):
        self.assertEqual(devices.pairs_of(None, ["a", "c", "d"]), [("a", "c")])
        self.assertEqual(devices.pairs_of(None, ["a"]), [("a", "a")])
        self.assertEqual(devices.pairs_of("x,y", ["a"]), [("x", "y")])
        self.assertEqual(devices.pairs_of("x", ["a", "b"]), [("x", "x")])
        self.assertEqual(devices.pairs_of(None, ["a", "b", "c", "d", "e"]), [("a", "b"), ("c", "d")])
        self.assertEqual(devices.pairs_of("w,x,y,z", ["a"]), [("w", "x"), ("y", "z")])
        self.assertEqual(devices.pairs_of(None, []), [])


    def test_what_has_a_bus_and_is_not_soft_roce_is_an_adapter(self):
        with tempfile.TemporaryDirectory() as root:
            for name, files in (("mlx5_0", ["device"]), ("mlx5_1", ["device"]), ("rxe0", ["parent", "device"]), ("siw0", [])):
                os.makedirs(os.path.join(root, name))
                for file in files:
                    open(os.path.join(root, name, file), "w", encoding="ascii").close()
            self.assertTrue(devices.are_adapters([("mlx5_0", "mlx5_1")], root))
            self.assertTrue(devices.are_adapters([("mlx5_0", "mlx5_0")], root))
            for other in ("rxe0", "siw0", "none"):
                self.assertFalse(devices.are_adapters([("mlx5_0", "mlx5_1"), ("mlx5_0", other)], root), other)
            self.assertFalse(devices.are_adapters([], root))


# Of each row: on soft-RoCE, and between adapters.
CLAIMS = {
    "page-get-rdma": (">= 0.95", ">= 0.97"),
    "rdma-read-64k": (">= 0.95", ">= 0.98"),
    "rdma-read-1m": (">= 0.95", ">= 0.98"),
    "rdma-write-64k": (">= 0.95", ">= 0.98"),
    "rdma-write-1m": (">= 0.95", ">= 0.98"),
    "rdma-read-8qp": (">= 1", ">= 0.98"),
    "rdma-write-lat-64": ("<= 1.1", "<= 1.05"),
    "rdma-rpc-1k": ("<= 1.2", "<= 1.3"),
    "rdma-rpc-slime-1k": ("faster 10", "faster 6"),
    "rdma-rpc-slime-64k": ("faster 5", "faster 3"),
    "rdma-rpc-slime-1m": ("faster 2", "faster 1.5"),
    "rdma-rpc-slime-16m": ("faster 2", "faster 1.5"),
    "rdma-rails": (">= 0.9", ">= 0.9"),
}


class Rows(unittest.TestCase):
    def test_rows_of_rdma_have_targets_of_their_own_between_adapters(self):
        rdma = [row for row in ROWS if row.rdma]
        self.assertEqual({row.name for row in rdma}, set(CLAIMS))
        for row in rdma:
            soft, adapters = CLAIMS[row.name]
            self.assertEqual(row.on_soft_roce().claim(), f"{soft} soft-RoCE")
            self.assertEqual(row.on_adapters().claim(), f"{adapters} adapters")

    def test_eight_queue_pairs_are_compared_with_one_on_soft_roce_and_with_eight_between_adapters(self):
        (row,) = [row for row in ROWS if row.name == "rdma-read-8qp"]
        self.assertIn("--depth 128", row.on_soft_roce().reference)
        self.assertNotIn("--qps", row.on_soft_roce().reference)
        self.assertIn("--depth 16 --qps 8", row.on_adapters().reference)

    def test_names_are_unique(self):
        names = [row.name for row in ROWS]
        self.assertEqual(len(names), len(set(names)))

    def test_rows_say_where_bytes_come_from_or_what_redis_does(self):
        for row in ROWS:
            self.assertIn(row.source, ("warm", "cold", AOF_OFF), row.name)


if __name__ == "__main__":
    unittest.main()
