// kernels/cpu_entries.h -- each kernel's function that puts its CPU entries, at one vector level, into a table.
#pragma once

#include "kernels/common/level.h"
#include "kernels/table.h"

namespace trainctl::kernels {

void add_adamw(KernelTable& table, Level level);
void add_attention(KernelTable& table, Level level);
void add_cast(KernelTable& table, Level level);
void add_cross_entropy(KernelTable& table, Level level);
void add_embedding(KernelTable& table, Level level);
void add_gelu(KernelTable& table, Level level);
void add_gemm(KernelTable& table, Level level);
void add_init(KernelTable& table);
void add_layernorm(KernelTable& table, Level level);
void add_reduce(KernelTable& table, Level level);
void add_residual(KernelTable& table, Level level);
void add_rmsnorm(KernelTable& table, Level level);
void add_rope(KernelTable& table, Level level);
void add_sgd(KernelTable& table, Level level);
void add_swiglu(KernelTable& table, Level level);

}  // namespace trainctl::kernels
