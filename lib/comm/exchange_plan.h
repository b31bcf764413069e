// lib/comm/exchange_plan.h -- the arithmetic of the hand-written algorithms: parts, pieces and scratch. Integers only.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "comm/collectives.h"

namespace trainctl {

int64_t elements_of(const Request& request);  // rows * row_elements
int64_t bytes_of(const Request& request);     // the whole buffer; all_to_all: everything sent, own part included

// Bytes [begin, end) of the whole buffer that rank `index` of `group_size` owns. all_reduce: even_split of elements;
// all_gather, reduce_scatter: even_split of rows.
Span64 part_of(const Request& request, int64_t group_size, int64_t index);

// The payload of one message: as many whole elements as fit into message_chunk_bytes.
int64_t piece_bytes(const Request& request, int64_t message_chunk_bytes);

// A small all_reduce sends whole buffers to all peers and sums locally: one round of messages instead of two.
bool all_reduce_in_one_round(const Request& request, int64_t group_size);

// Reductions keep one piece of every peer: (n - 1) * min(largest part, piece), the same on every rank. Others need
// none.
int64_t exchange_scratch_bytes(const GroupInfo& group, const Request& request, int64_t message_chunk_bytes);

// Throws Error{internal} on a request that no backend could run: negative sizes, counts that do not fit the group, a
// peer outside it.
void check_request(const GroupInfo& group, const Request& request);
void check_chunk_limit(int64_t message_chunk_bytes);  // throws Error{config} outside 64 ... 2^30

}  // namespace trainctl
