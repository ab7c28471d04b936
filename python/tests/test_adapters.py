# SPDX-License-Identifier: Apache-2.0
"""The adapters under the contracts of LMCache and SGLang: their own, unmodified modules from the published wheels call
them. SLIME_LMCACHE and SLIME_SGLANG name folders with the unpacked wheels; torch and native modules, which those import
and these parts do not need, are stubs."""

import ctypes
import importlib
import importlib.machinery
import itertools
import json
import os
import select
import sys
import types

import libslime
import pytest

PAGE = 65536
names = itertools.count()


@pytest.fixture
def owner(nanoctrl):
    """An owner of pages in a scope of its own: url, scope."""
    scope = f"adapter-{next(names)}"
    agent = libslime.Agent(nanoctrl, name="owner", scope=scope)
    pages = libslime.PagesOwner(agent, 64 << 20, page_sizes=[4096, PAGE])
    with agent:
        pages.start()
        yield nanoctrl, scope
        pages.close()


def unpacked(variable):
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{variable} does not name the folder of the wheel")
    return folder


class Any(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return cls


class Dummy(metaclass=Any):
    """Each attribute and subscript of it is the class itself."""

    def __init__(self, *_, **__):
        pass

    def __class_getitem__(cls, _):
        return cls


def stub(name, **members):
    module = types.ModuleType(name)
    module.__dict__.update(members)

    def anything(attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Dummy

    module.__getattr__ = anything
    sys.modules[name] = module


def parents(folder, *packages):
    """Packages whose __init__ does not run."""
    for name in packages:
        module = types.ModuleType(name)
        module.__path__ = [os.path.join(folder, *name.split("."))]
        sys.modules[name] = module


@pytest.fixture
def modules():
    """Those of others go again."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("lmcache", "sglang", "torch"):
            del sys.modules[name]


# ---- LMCache ----


class Bitmap:
    def __init__(self, n):
        self.bits = [False] * n

    def set(self, i):
        self.bits[i] = True


class Object:
    """As LMCache's, of memory that does not move."""

    def __init__(self, data):
        self.memory = (ctypes.c_ubyte * len(data)).from_buffer_copy(data)
        self.byte_array = memoryview(self.memory)

    def get_size(self):
        return len(self.memory)

    get_physical_size = get_size


class TensorObject(Object):
    pass


@pytest.fixture
def lmcache(modules):
    folder = unpacked("SLIME_LMCACHE")
    v1 = "lmcache.v1"
    parents(folder, "lmcache", v1, f"{v1}.distributed", f"{v1}.distributed.l2_adapters", f"{v1}.mp_observability")
    stub("torch")
    stub("lmcache.lmcache_native", Bitmap=Bitmap)
    stub(f"{v1}.memory_management", MemoryObj=Object, TensorMemoryObj=TensorObject)
    stub(f"{v1}.mp_observability.event")
    bus = types.SimpleNamespace(publish=lambda *_: None, emit=lambda *_: None, is_enabled=lambda *_: False)
    stub(f"{v1}.mp_observability.event_bus", get_event_bus=lambda: bus)
    stub(f"{v1}.distributed.serde")
    platform = types.ModuleType(f"{v1}.platform")
    platform.__path__ = [os.path.join(folder, "lmcache", "v1", "platform")]
    sys.modules[platform.__name__] = platform
    platform.create_event_notifier = importlib.import_module(f"{v1}.platform.event_notifier").create_event_notifier
    plugin = importlib.import_module(f"{v1}.distributed.l2_adapters.native_plugin_l2_adapter")
    key = importlib.import_module(f"{v1}.distributed.api").ObjectKey
    return plugin, key


class Adapter:
    """LMCache's adapter over our connector, with each of its tasks waited for."""

    def __init__(self, plugin, url, scope, **params):
        setting = {
            "type": "native_plugin",
            "module_path": "libslime.adapters.lmcache",
            "class_name": "Connector",
            "adapter_params": {"url": url, "scope": scope, **params},
            "max_capacity_gb": 1,
        }
        config = plugin.NativePluginL2AdapterConfig.from_dict(json.loads(json.dumps(setting)))
        self.of_lmcache = plugin._create_native_plugin_l2_adapter(config)

    @staticmethod
    def wait(descriptor):
        assert select.select([descriptor], [], [], 20)[0], "no completion"
        os.read(descriptor, 8)

    def store(self, keys, objects):
        task = self.of_lmcache.submit_store_task(keys, objects)
        self.wait(self.of_lmcache.get_store_event_fd())
        return self.of_lmcache.pop_completed_store_tasks()[task]

    def lookup(self, keys):
        task = self.of_lmcache.submit_lookup_and_lock_task(keys, {})
        self.wait(self.of_lmcache.get_lookup_and_lock_event_fd())
        return self.of_lmcache.query_lookup_and_lock_result(task).bits

    def load(self, keys, objects):
        task = self.of_lmcache.submit_load_task(keys, objects)
        self.wait(self.of_lmcache.get_load_event_fd())
        return self.of_lmcache.query_load_result(task).bits


def is_ok(result):
    return bool(getattr(result, "is_successful", lambda: result)())


def object_keys(key, n):
    return [key(chunk_hash=bytes([i, i + 1]), model_name="org/model", kv_rank=i) for i in range(n)]


def test_lmcache__stores_looks_up_loads_and_deletes(owner, lmcache):
    plugin, key = lmcache
    adapter = Adapter(plugin, *owner, size=1 << 20)
    keys = object_keys(key, 24)
    assert adapter.lookup(keys) == [False] * 24
    # More than the connector's memory holds at a time.
    assert is_ok(adapter.store(keys[:20], [Object(bytes([i]) * PAGE) for i in range(20)]))
    assert adapter.lookup(keys) == [True] * 20 + [False] * 4
    into = [Object(bytes(PAGE)) for _ in range(24)]
    assert adapter.load(keys, into) == [True] * 20 + [False] * 4
    assert all(bytes(into[i].byte_array) == bytes([i]) * PAGE for i in range(20))
    adapter.of_lmcache.submit_unlock(keys)
    adapter.of_lmcache.delete(keys[:5])
    assert adapter.lookup(keys[:6]) == [False] * 5 + [True]
    assert adapter.of_lmcache.get_usage() is not None and adapter.of_lmcache.report_status()
    adapter.of_lmcache.close()


def test_lmcache__many_tasks_at_once_each_end(owner, lmcache):
    plugin, key = lmcache
    adapter = Adapter(plugin, *owner, size=256 << 10)
    keys = object_keys(key, 40)
    tasks = {adapter.of_lmcache.submit_store_task([k], [Object(bytes([i]) * PAGE)]) for i, k in enumerate(keys)}
    results = {}
    while len(results) < len(tasks):
        adapter.wait(adapter.of_lmcache.get_store_event_fd())
        results.update(adapter.of_lmcache.pop_completed_store_tasks())
    assert set(results) == tasks and all(is_ok(r) for r in results.values())
    into = [Object(bytes(PAGE)) for _ in keys]
    assert all(adapter.load(keys, into))
    assert all(bytes(o.byte_array) == bytes([i]) * PAGE for i, o in enumerate(into))
    adapter.of_lmcache.close()


def test_lmcache__a_value_of_another_length_is_no_hit(owner, lmcache):
    plugin, key = lmcache
    adapter = Adapter(plugin, *owner)
    keys = object_keys(key, 2)
    assert is_ok(adapter.store(keys, [Object(b"a" * 4096), Object(b"b" * 4096)]))
    assert adapter.load(keys, [Object(bytes(4096)), Object(bytes(PAGE))]) == [True, False]
    adapter.of_lmcache.close()


def test_connector__says_which_value_or_setting_is_wrong(owner):
    from libslime.adapters.lmcache import Connector

    url, scope = owner
    with pytest.raises(TypeError, match="colour"):
        Connector(url, scope=scope, colour="green")
    with pytest.raises(libslime.SlimeError):
        Connector(url, scope=f"{scope}-empty", timeout=0.5)
    connector = Connector(url, scope=scope, size=8192)
    with pytest.raises(libslime.Invalid, match="10000 bytes"):
        connector.submit_batch_set(["k"], [memoryview(bytes(10000))])
    connector.submit_batch_set(["k"], [memoryview(b"under way at the end")])
    connector.close()
    with pytest.raises(libslime.Invalid, match="closed"):
        connector.submit_batch_exists(["k"])


# ---- SGLang ----


class Tensor(list):
    """What the parts that run here use of a tensor."""

    def tolist(self):
        return list(self)


class Flat:
    """Memory as a flat tensor of bytes."""

    def __init__(self, memory):
        self.memory = memory

    def data_ptr(self):
        return ctypes.addressof(self.memory)

    def numel(self):
        return len(self.memory)

    def element_size(self):
        return 1


class Pool:
    """A host pool, page_first: of a page keys, then values."""

    def __init__(self, pages, tokens=16, parts=2):
        self.page, self.tokens, self.parts = parts * PAGE, tokens, parts
        self.memory = (ctypes.c_ubyte * (pages * self.page))()
        self.kv_buffer = Flat(self.memory)

    def get_page_buffer_meta(self, indices):
        indices = indices.tolist()
        at = [i // self.tokens * self.page for i in indices[:: self.tokens]]
        base = ctypes.addressof(self.memory)
        return [base + a + p * PAGE for a in at for p in range(self.parts)], [PAGE] * len(at) * self.parts

    def indices(self, pages):
        return Tensor(p * self.tokens + t for p in pages for t in range(self.tokens))

    def fill(self, page, byte):
        ctypes.memset(ctypes.addressof(self.memory) + page * self.page, byte, self.page)

    def bytes(self, page):
        return bytes(self.memory[page * self.page : (page + 1) * self.page])


@pytest.fixture
def sglang(modules):
    folder = unpacked("SLIME_SGLANG")
    parents(folder, "sglang", "sglang.srt", "sglang.srt.mem_cache", "sglang.srt.mem_cache.storage")
    stub("torch", Tensor=Tensor)

    class Envs:
        def __getattr__(self, name):
            return types.SimpleNamespace(get=lambda: None)

    stub("sglang.srt.environ", envs=Envs())
    storage = importlib.import_module("sglang.srt.mem_cache.hicache_storage")
    factory = importlib.import_module("sglang.srt.mem_cache.storage.backend_factory")
    sys.modules.pop("libslime.adapters.sglang", None)
    return storage, factory


def make_back_end(sglang, owner, pool, *, mla=False, rank=0, **extra):
    storage, factory = sglang
    url, scope = owner
    known = {
        "tp_rank": rank,
        "tp_size": 2,
        "pp_rank": 0,
        "pp_size": 1,
        "attn_cp_rank": 0,
        "attn_cp_size": 1,
        "is_mla_model": mla,
        "enable_storage_metrics": False,
        "is_page_first_layout": True,
        "model_name": "org/model",
        "extra_config": {
            "backend_name": "slime",
            "module_path": "libslime.adapters.sglang",
            "class_name": "HiCache",
            "url": url,
            "scope": scope,
            **extra,
        },
    }
    config = storage.HiCacheStorageConfig(**known)
    back_end = factory.StorageBackendFactory.create_backend("dynamic", config, pool)
    back_end.register_mem_pool_host(pool)
    return back_end


def test_sglang__pages_of_the_pool_are_set_and_got(owner, sglang):
    pool = Pool(8)
    back_end = make_back_end(sglang, owner, pool, interface_v1=1)
    for page in range(4):
        pool.fill(page, page + 1)
    keys = [f"hash-{i}" for i in range(6)]
    assert back_end.batch_exists(keys) == 0
    assert back_end.batch_set_v1(keys[:4], pool.indices(range(4))) == [True] * 4
    assert back_end.batch_set_v1(keys[:4], pool.indices(range(4))) == [True] * 4
    assert back_end.batch_exists(keys) == 4
    assert back_end.exists(keys[0]) and not back_end.exists(keys[5])
    assert back_end.batch_get_v1(keys[2:6], pool.indices(range(4, 8))) == [True, True, False, False]
    assert pool.bytes(4) == bytes([3]) * pool.page and pool.bytes(5) == bytes([4]) * pool.page
    # Another rank has other bytes under the same hash.
    other = make_back_end(sglang, owner, Pool(1), interface_v1=1, rank=1)
    assert other.batch_exists(keys) == 0
    other.close()
    back_end.clear()
    assert back_end.batch_exists(keys) == 0
    back_end.close()


def test_sglang__ranks_of_mla_share_their_pages(owner, sglang):
    writer, reader = Pool(1, parts=1), Pool(1, parts=1)
    ends = [make_back_end(sglang, owner, p, mla=True, rank=r, interface_v1=1) for r, p in enumerate((writer, reader))]
    writer.fill(0, 7)
    assert ends[0].batch_set_v1(["hash"], writer.indices([0])) == [True]
    assert ends[1].batch_get_v1(["hash"], reader.indices([0])) == [True]
    assert reader.bytes(0) == writer.bytes(0)
    for end in ends:
        end.close()


def test_sglang__tensors_of_the_caller_are_set_and_got(owner, sglang):
    back_end = make_back_end(sglang, owner, Pool(1))
    out = [Flat((ctypes.c_ubyte * PAGE)(*([i + 1] * PAGE))) for i in range(2)]
    into = [Flat((ctypes.c_ubyte * PAGE)()) for _ in range(3)]
    assert back_end.batch_set(["a", "b"], out)
    assert back_end.batch_exists(["a", "b", "c"]) == 2
    got = back_end.batch_get(["a", "b", "c"], into)
    assert got[:2] == into[:2] and got[2] is None
    assert [bytes(t.memory) for t in into[:2]] == [bytes(t.memory) for t in out]
    assert back_end.set("d", out[0]) and back_end.get("d", into[2]) is into[2]
    back_end.close()


def test_sglang__says_which_setting_is_wrong(owner, sglang):
    with pytest.raises(libslime.Invalid, match="colour"):
        make_back_end(sglang, owner, Pool(1), colour="green")
    with pytest.raises(libslime.Invalid, match="page_first"):
        back_end = make_back_end(sglang, owner, Pool(1), interface_v1=1, mla=True)
        try:
            back_end.batch_set_v1(["hash"], back_end._pool.indices([0]))
        finally:
            back_end.close()
