/* A C program that stands on the C interface alone: it makes a plan, looks at it, runs it on the
 * host, and compares the gradients with those that it works out itself. With an argument it prints
 * the sizes of the structs, for those who write them down in another language. */
#include "stagger.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kRows = 40, kDim = 8, kHeads = 2, kElements = kHeads * kRows * kDim };

static int failures = 0;

static void expect(int holds, const char *what) {
  if (holds) return;
  ++failures;
  printf("FAILED: %s (%s)\n", what, stagger_last_error());
}

static void print_sizes(void) {
  printf("Info %zu\n", sizeof(stagger_info));
  printf("Problem %zu\n", sizeof(stagger_problem));
  printf("PlanInfo %zu\n", sizeof(stagger_plan_info));
  printf("Tensor %zu\n", sizeof(stagger_tensor));
  printf("Call %zu\n", sizeof(stagger_call));
  printf("Status %zu\n", sizeof(stagger_status));
}

static stagger_tensor tensor_of(float *data, int dim) {
  stagger_tensor tensor = {data, {kHeads * kRows * dim, dim, kRows * dim}};
  return tensor;
}

static float number(unsigned *state) {
  *state = *state * 1664525U + 1013904223U;
  return (float)(*state >> 24) / 128.0F - 1.0F;
}

static float q[kElements], k[kElements], v[kElements], d_out[kElements], out[kElements];
static float lse[kHeads * kRows], dq[kElements], dk[kElements], dv[kElements];
static double exact_dq[kElements], exact_dk[kElements], exact_dv[kElements];

static double dot(const float *left, const float *right) {
  double sum = 0;
  for (int i = 0; i < kDim; ++i) sum += (double)left[i] * right[i];
  return sum;
}

/* Forward and backward pass of one causal row as they are defined. */
static void row_of(int head, int query) {
  const double scale = 1 / sqrt((double)kDim);
  const int row = head * kRows + query;
  double p[kRows], sum = 0, delta = 0, o[kDim] = {0};
  for (int key = 0; key <= query; ++key)
    sum += p[key] = exp(scale * dot(q + row * kDim, k + (head * kRows + key) * kDim));
  lse[row] = (float)log(sum);
  for (int key = 0; key <= query; ++key)
    for (int i = 0; i < kDim; ++i) o[i] += p[key] / sum * v[(head * kRows + key) * kDim + i];
  for (int i = 0; i < kDim; ++i) {
    out[row * kDim + i] = (float)o[i];
    delta += o[i] * d_out[row * kDim + i];
  }
  for (int key = 0; key <= query; ++key) {
    const int place = (head * kRows + key) * kDim;
    const double ds = p[key] / sum * (dot(d_out + row * kDim, v + place) - delta) * scale;
    for (int i = 0; i < kDim; ++i) {
      exact_dq[row * kDim + i] += ds * k[place + i];
      exact_dk[place + i] += ds * q[row * kDim + i];
      exact_dv[place + i] += p[key] / sum * d_out[row * kDim + i];
    }
  }
}

static double error_of(const float *gradient, const double *exact) {
  double difference = 0, norm = 0;
  for (int i = 0; i < kElements; ++i) {
    difference += (gradient[i] - exact[i]) * (gradient[i] - exact[i]);
    norm += exact[i] * exact[i];
  }
  return sqrt(difference / norm);
}

static stagger_call call_of_all(void) {
  stagger_call call;
  memset(&call, 0, sizeof call);
  call.size = sizeof call;
  call.q = tensor_of(q, kDim);
  call.k = tensor_of(k, kDim);
  call.v = tensor_of(v, kDim);
  call.out = tensor_of(out, kDim);
  call.d_out = tensor_of(d_out, kDim);
  call.dq = tensor_of(dq, kDim);
  call.dk = tensor_of(dk, kDim);
  call.dv = tensor_of(dv, kDim);
  call.lse = tensor_of(lse, 1);
  return call;
}

static void run_on_host(const stagger_plan *plan) {
  unsigned state = 7;
  for (int i = 0; i < kElements; ++i) {
    q[i] = number(&state);
    k[i] = number(&state);
    v[i] = number(&state);
    d_out[i] = number(&state);
  }
  for (int head = 0; head < kHeads; ++head)
    for (int query = 0; query < kRows; ++query) row_of(head, query);
  const stagger_call call = call_of_all();
  expect(stagger_backward_host(plan, &call, 2, STAGGER_FP32) == STAGGER_OK, "the host runs a plan");
  expect(error_of(dq, exact_dq) < 1e-5, "dq is right");
  expect(error_of(dk, exact_dk) < 1e-5, "dk is right");
  expect(error_of(dv, exact_dv) < 1e-5, "dv is right");
  expect(stagger_backward(plan, &call) != STAGGER_OK, "a plan for the host is no device's");
}

static void ask_for_json(void) {
  char *text = NULL;
  expect(stagger_json("{\"command\": \"compare\", \"options\": {\"mask\": \"causal\", \"n\": 4}}",
                      &text) == STAGGER_OK,
         "a command runs");
  expect(text != NULL && strstr(text, "\"exit_code\": 0") != NULL, "its exit code is 0");
  expect(text != NULL && strstr(text, "stagger.compare/1") != NULL, "its report is there");
  stagger_free(text);
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) {
    print_sizes();
    return 0;
  }
  stagger_info info = {.size = sizeof info};
  expect(stagger_query(&info) == STAGGER_OK, "the library says what it is");
  expect(info.abi == STAGGER_ABI && info.numerics == STAGGER_NUMERICS, "it is this header's");
  stagger_problem problem = {.size = sizeof problem, .batch = 1, .heads_q = kHeads};
  problem.heads_kv = kHeads;
  problem.head_dim = kDim;
  problem.dtype = STAGGER_FP32;
  problem.sms = 4;
  problem.tile_q = problem.tile_kv = 16;
  problem.seq_q = problem.seq_kv = kRows;
  problem.mask = "causal";
  problem.schedule = "spt";
  stagger_plan *plan = NULL;
  expect(stagger_plan_create(&problem, &plan) == STAGGER_OK, "a plan is made");
  if (plan == NULL) return 1;
  stagger_plan_info planned = {.size = sizeof planned};
  expect(stagger_plan_describe(plan, &planned) == STAGGER_OK, "a plan says what it is");
  expect(planned.tasks == 2 * 6 && planned.device_bytes == 0, "three tiles a side, for the host");
  run_on_host(plan);
  stagger_plan_destroy(plan);
  ask_for_json();
  if (failures == 0) puts("a C program runs on the C interface");
  return failures == 0 ? 0 : 1;
}
