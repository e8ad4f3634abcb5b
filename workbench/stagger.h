/* The C interface of Stagger: a deterministic attention backward pass by tables, and the workbench
 * that makes and judges them. C11 and C++.
 *
 *     stagger_plan_create    host only: mask, sizes and schedule -> a plan
 *     stagger_plan_upload    its image into device memory of the caller's
 *     stagger_backward       enqueues on the caller's stream, with the caller's workspace
 *
 * A struct begins with its size, which the caller sets to sizeof: the library reads no further, and
 * takes members that are not there for 0. Functions return 0 or a stagger_error, and
 * stagger_last_error() then says why; where it is their job, they leave what was passed in by
 * pointer as it was. All functions may be called from any thread. A plan does not change after it
 * is made: it may be used on many threads and streams at once, if each call has a workspace of its
 * own. No function allocates device memory, waits for the device or uses the default stream,
 * unless it says so.
 */
#ifndef STAGGER_H
#define STAGGER_H

#include <stdint.h>

#if defined(__GNUC__)
#define STAGGER_API __attribute__((visibility("default")))
#else
#define STAGGER_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define STAGGER_ABI 1      /* another number: programs have to be compiled again */
#define STAGGER_NUMERICS 1 /* another number: one table may give other bits than before */

typedef enum stagger_error {
  STAGGER_OK = 0,
  STAGGER_E_USAGE = 1,       /* an argument, or several together, make no sense */
  STAGGER_E_INPUT = 2,       /* a mask, a table, a profile or a request is malformed */
  STAGGER_E_UNSUPPORTED = 3, /* what is asked for is not done; the text says why */
  STAGGER_E_LIMIT = 4,       /* a size, a number or memory is beyond a limit */
  STAGGER_E_IO = 5,          /* a file cannot be read */
  STAGGER_E_NO_DEVICE = 6,   /* there is no GPU that could run it */
  STAGGER_E_DEVICE = 7,      /* a call of CUDA failed, or memory is another device's */
  STAGGER_E_WORKSPACE = 8,   /* the workspace, or memory for an image, is too small or absent */
  STAGGER_E_ALIGNMENT = 9,   /* an address or a stride, which the text names */
  STAGGER_E_RESIDENCY = 10,  /* the table needs more CTAs at once than the device holds */
  STAGGER_E_CAPTURE = 11,    /* not while a stream is captured */
  STAGGER_E_TIMEOUT = 12,    /* a wait was too long, and the call was stopped */
  STAGGER_E_DEADLOCK = 13,   /* the table hangs */
  STAGGER_E_INTERNAL = 14    /* our fault */
} stagger_error;

typedef enum stagger_dtype {
  STAGGER_BF16 = 1,
  STAGGER_FP16 = 2,
  STAGGER_FP32 = 3 /* stagger_backward_host alone */
} stagger_dtype;

typedef enum stagger_mode {
  STAGGER_DETERMINISTIC = 0, /* dQ is added in the order of the table */
  STAGGER_ATOMIC = 1         /* dQ is added as it comes: other bits in every call */
} stagger_mode;

enum {
  STAGGER_LAUNCH_AUTO = 0,        /* cooperative */
  STAGGER_LAUNCH_COOPERATIVE = 1, /* all CTAs start together, or the launch fails */
  STAGGER_LAUNCH_ELASTIC = 2      /* as there is room: for tables that need one CTA alone */
};

/* Flags of a problem. */
enum {
  STAGGER_NO_VERIFY = 1, /* a table of the caller's is not looked at: it may hang until its timeout */
  STAGGER_INVARIANT = 2  /* every head in one order, whatever their number; fewer SMs if need be */
};

typedef struct stagger_plan stagger_plan;

/* What the library is, and what it can use. */
typedef struct stagger_info {
  uint32_t size, abi, numerics;
  char version[32];
  char commit[16]; /* "": unknown */
  int32_t has_cuda;
  int32_t device, sms, cc_major, cc_minor; /* the current device; -1, 0, 0, 0: none */
  int32_t driver;                          /* 1000 major + 10 minor of the CUDA it knows */
  int32_t usable;                          /* whether stagger_backward would run */
  char why_not[160];
} stagger_info;

typedef struct stagger_problem {
  uint32_t size, flags;
  int32_t batch, heads_q, heads_kv; /* heads_kv divides heads_q; query head h has K and V of
                                       KV head h / (heads_q / heads_kv) */
  int32_t head_dim;
  int32_t dtype;                    /* stagger_dtype */
  int32_t sms;                      /* 0: those of the current device; a table has its own */
  int32_t tile_q, tile_kv;          /* tokens; 0: chosen */
  int32_t launch;
  int64_t seq_q, seq_kv;
  const char* mask;     /* "causal", "sliding:left=511,right=0", JSON text, "@file" in any
                           format that `stagger list masks` names, if it says which pairs
                           attend in partial tiles; NULL: causal.
                           Causal masks end together where the lengths differ. */
  const char* schedule; /* "auto", "spt", "symmetric-shift", ...; "auto:search" tries every window
                           of "windowed", "auto" five; NULL: auto, or the table */
  const char* table;    /* JSON text or "@file" of a stagger.table; NULL: by the schedule */
  const char* machine;  /* a profile that "auto" goes by, JSON text, "@file", or a name that is built
                           in, "h200", "h100", "h800"; NULL: "h200" */
  int32_t span;         /* query heads of a KV head that share a chain, whose dK and dV are summed
                           in registers; divides heads_q / heads_kv. 0: chosen, or the table's */
} stagger_problem;

typedef struct stagger_plan_info {
  uint32_t size;
  int32_t tile_q, tile_kv, lanes;
  int32_t ctas;            /* that are launched */
  int32_t launch;          /* cooperative or elastic */
  int32_t resident_needed; /* CTAs that have to be there at once; 1: any number will do */
  int32_t invariant;       /* whether every head has the one order that it has alone */
  int64_t tasks;
  uint64_t order_digest; /* what the bits depend on beside mask, dtype and the numbers */
  uint64_t table_digest; /* of lanes and ranks, whatever heads and tiles are called */
  int64_t predicted_ns;  /* of a whole call, by the profile; 0: it has no such entry */
  char schedule[64];
  char mask[256];
  uint64_t device_bytes;    /* of stagger_plan_upload; 0: host only */
  uint64_t workspace_bytes; /* of stagger_backward; 0: host only */
  uint64_t host_bytes;      /* what the plan itself takes */
  int32_t span;             /* query heads of a chain; below those of a KV head, its chains leave
                               parts of dK and dV in the workspace, which are added at the end,
                               or by the table are added in turn */
} stagger_plan_info;

/* A tensor (batch, row, head, head_dim), in elements; the last dimension's stride is 1. Any order
 * in memory. A stride is a positive multiple of 8 where its dimension is above 1, and an address a
 * multiple of 16 bytes; not of lse, nor on the host. */
typedef struct stagger_tensor {
  void* data;
  int64_t stride[3]; /* batch, row, head */
} stagger_tensor;

/* Where calls that are stopped say so: host memory that the device writes (stagger_status_new).
 * One for each device. */
typedef struct stagger_status {
  uint32_t code; /* STAGGER_E_TIMEOUT once a call was stopped; the caller clears it */
  uint32_t device;
  uint64_t call_id; /* of the first call that was stopped since code was 0, and its order digest */
  uint64_t order_digest;
  uint64_t stopped_ns; /* the device's clock */
  uint32_t count;      /* calls that were stopped */
  uint32_t pad[7];
} stagger_status;

typedef struct stagger_call {
  uint32_t size;
  int32_t mode; /* stagger_mode */
  float scale;  /* of the scores, > 0; 0: 1 / sqrt(head_dim) */
  stagger_tensor q, k, v, out, d_out;
  stagger_tensor dq, dk, dv; /* written, every element; they overlap nothing, and each one's strides
                                nest: no dimension steps into what a smaller stride goes through */
  stagger_tensor lse;        /* fp32: natural logarithm of the sum of exp(score). Rows that see
                                nothing have either infinity */
  void* workspace;           /* device memory, 256-byte aligned; nothing has to be in it, and it
                                overlaps neither a tensor nor device_plan */
  uint64_t workspace_bytes;
  const void* device_plan; /* what stagger_plan_upload filled; no gradient overlaps it */
  void* stream;            /* cudaStream_t */
  uint32_t timeout_ms;     /* the longest wait for a turn; 0: a minute */
  stagger_status* status;  /* or NULL */
  uint64_t call_id;        /* for the status */
} stagger_call;

/* Without a GPU usable is 0, and why_not says why: that is no error. */
STAGGER_API int32_t stagger_query(stagger_info* info);

/* Makes a plan on the host, O(tasks and masked pairs). It needs a device only where sms is 0 and
 * there is no table. A plan that the kernel would not run (fp32, a head_dim, tiles, a mask of more
 * than 1 GiB of bits) is made for the host alone: device_bytes is 0. */
STAGGER_API int32_t stagger_plan_create(const stagger_problem* problem, stagger_plan** plan);
STAGGER_API int32_t stagger_plan_describe(const stagger_plan* plan, stagger_plan_info* info);
/* Fills slots with (head, kv, q, rank) of every task, lane by lane, and lane_begin with lanes + 1
 * places among them. Either may be NULL. Heads count through the batch. */
STAGGER_API int32_t stagger_plan_table(const stagger_plan* plan, int32_t* slots,
                                       int64_t* lane_begin);
/* The table as a file has it; stagger_free() it. */
STAGGER_API int32_t stagger_plan_json(const stagger_plan* plan, char** text);
/* What counts of the machine profile for the plan's tiles, stagger.machine/1; stagger_free() it. A
 * problem that has it as `machine`, with the plan's schedule, tiles, span and SMs, makes the same
 * table whatever has become of the profile. */
STAGGER_API int32_t stagger_plan_machine(const stagger_plan* plan, char** text);
STAGGER_API void stagger_plan_destroy(stagger_plan* plan);

/* Copies the image, device_bytes of it, in the order of the stream; the plan may go at once. */
STAGGER_API int32_t stagger_plan_upload(const stagger_plan* plan, void* device_memory,
                                        uint64_t bytes, void* stream);

/* Enqueues three kernels on the current device, four where chains of a KV head leave parts of dK
 * and dV that are added in a pass. A call that is stopped by its timeout leaves NaN in every
 * gradient and says so in the status. */
STAGGER_API int32_t stagger_backward(const stagger_plan* plan, const stagger_call* call);

/* The same on CPU threads, for fp32 arrays in host memory; returns when it is done. `arithmetic`
 * is a stagger_dtype: in 16 bits, P and dS are rounded as the kernels round them, and inputs have
 * to be exact. `threads` 0: as many as there are cores. The scale is 1 / sqrt(head_dim). */
STAGGER_API int32_t stagger_backward_host(const stagger_plan* plan, const stagger_call* call,
                                          int32_t threads, int32_t arithmetic);

/* Pinned memory that every device of the process can write, all 0. */
STAGGER_API int32_t stagger_status_new(stagger_status** status);
STAGGER_API void stagger_status_free(stagger_status* status);

/* Runs a command of the workbench: {"command": "compare", "options": {"mask": "causal", "n": 8}}
 * with the long options of `stagger compare` as keys. The response, to be freed by stagger_free(),
 * is {"exit_code": 0, "report": ...} with what --json prints, or {"exit_code": 2, "error": "..."};
 * "messages" are there where the command would say more on standard error.
 * Fails only if the request is malformed.
 *
 * A request may have an "id", a string: {"command": "cancel", "id": "..."} from another thread then
 * ends it with what it has (exit code 130) where the command would be interrupted, and says whether
 * there was one: its report is {"cancelled": true}. */
STAGGER_API int32_t stagger_json(const char* request, char** response);

STAGGER_API void stagger_free(void* text);

/* Why this thread's last failure was one; "" before any. Valid until its next call. */
STAGGER_API const char* stagger_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
