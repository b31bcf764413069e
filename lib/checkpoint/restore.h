// lib/checkpoint/restore.h -- filling a rank's catalog from a checkpoint that any layout wrote.
#pragma once

#include <string>

#include "checkpoint/checkpoint_reader.h"
#include "device/device.h"
#include "tensor/catalog.h"

namespace trainctl {

// What keeps `catalog` from being filled, all of it: "\n  <name> (<role>): <what>" per fault of names, shapes and
// dtypes; "" when it fits.
std::string fit_faults(const CheckpointReader& reader, const StateCatalog& catalog);

// Every local tensor of `catalog` is overwritten with the elements of its box; entries with alias_of load from the name
// they alias when their own is not stored. Throws Error{checkpoint} with fit_faults before the first byte is written
// and before other ranks are met. In a world of several ranks the reading is collective and throws on all or none
// (read_shared_blocks); the catalog's tensors may then be partly overwritten and must not be used.
void restore_catalog(CheckpointReader& reader, const StateCatalog& catalog, Device& device,
                     const Agreement& ranks = {});

}  // namespace trainctl
