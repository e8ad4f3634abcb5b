#pragma once

/// Marks a function that both the host and a CUDA device call.
#ifdef __CUDACC__
#define STAGGER_HOST_DEVICE __host__ __device__
#else
#define STAGGER_HOST_DEVICE
#endif
