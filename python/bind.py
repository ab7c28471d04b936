# SPDX-License-Identifier: Apache-2.0
"""Writes the C source of the module: bind.py TREE OUTPUT. The declarations are those of the public headers."""

import re
import sys
from pathlib import Path

from cffi import FFI

# Each after what it uses.
HEADERS = """libslime: context mr op xfer msg rpc endpoint listener stats topo log
peeragent/lib: agent target
pages: pages"""

EXTRA = """
void py_fill_xfers(struct slime_xfer *, size_t, struct slime_mr *, const struct slime_remote_mr *, const uint64_t *,
                   const uint64_t *, const uint64_t *);
struct py_queue;
struct py_future { struct py_future *next; uint64_t key; ...; };
struct py_queue *py_queue_create(void);
void py_queue_destroy(struct py_queue *);
int py_queue_fd(const struct py_queue *);
struct py_future *py_queue_take(struct py_queue *);
void py_queue_ring(struct py_queue *);
struct py_future *py_future_create(struct py_queue *, uint64_t);
void py_future_destroy(struct py_future *);
bool py_future_await(struct py_future *);
struct slime_rpc_request *py_next_request(struct slime_context *, uint32_t);
struct py_arrivals;
struct py_arrivals *py_arrivals_create(void);
void py_arrivals_destroy(struct py_arrivals *);
int py_arrivals_fd(const struct py_arrivals *);
struct slime_endpoint *py_arrivals_next(struct py_arrivals *);
void py_arrive(void *, struct slime_listener *, struct slime_endpoint *);
struct py_dltensor { void *data; int32_t device_type, device_id, ndim; uint8_t code, bits; uint16_t lanes;
                     int64_t *shape, *strides; uint64_t byte_offset; };
int py_op_create(struct slime_context *, struct py_future *, struct slime_op **);
int py_call_create(struct slime_context *, struct py_future *, struct slime_call **);
int py_pages_request_create(struct slime_pages *, struct py_future *, struct slime_pages_request **);
void py_log_to_stderr(int);
void py_log_forget(void);
void py_log_of_control(char *, size_t);
const char *py_log_said(void);
extern "Python" void py_handle(void *, struct slime_rpc_request *);
extern "Python" bool py_interrupted(void *);
extern "Python" void py_agent_state(void *, struct slime_agent *, enum slime_agent_state, int, const char *);
"""


def constants(text):
    """The numbers that headers define by name: those that are plain numbers."""
    found = re.findall(r"^#define (SLIME_[A-Z0-9_]+)[ \t]+(\(?-?\d+\)?)[ \t]*(?:/\*.*)?$", text, re.M)
    return {name: int(value.strip("()")) for name, value in found}


def declarations(text, numbers):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)
    text = re.sub(r"\bSLIME_(API|CHECKED|BEGIN_DECLS|END_DECLS)\b", "", text)
    text = re.sub(r"\bSLIME_PRINTF\([^)]*\)", "", text)
    for name in sorted(numbers, key=len, reverse=True):
        text = re.sub(rf"\b{name}\b", str(numbers[name]), text)
    return re.sub(r"\[([0-9 +]+)\]", lambda m: f"[{eval(m[1])}]", text)


def main():
    tree, output = Path(sys.argv[1]), sys.argv[2]
    texts = []
    for line in HEADERS.splitlines():
        part, names = line.split(":")
        texts += [(tree / part / "include/slime" / f"{name}.h").read_text() for name in names.split()]
    numbers = {}
    for text in texts:
        numbers.update(constants(text))
    ffi = FFI()
    ffi.cdef("struct event_base;" + "\n".join(declarations(text, numbers) for text in texts) + EXTRA)
    ffi.cdef("\n".join(f"#define {name} {value}" for name, value in numbers.items()))
    ffi.set_source("libslime._libslime", '#include "bind.h"', py_limited_api=True)
    ffi.emit_c_code(output)


main()
