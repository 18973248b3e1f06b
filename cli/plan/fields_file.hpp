// SPDX-License-Identifier: Apache-2.0
#pragma once
// `tremula plan --fields`: what a step of many arrays moves between each pair of ranks.
#include <string>
#include <vector>

#include "cli/plan/redistribution.hpp"
#include "core/element_type.hpp"

namespace tremula::cli {

struct PlannedField {
  std::string name;
  core::ElementType type = core::ElementType::f64;
  Redistribution arrays;
};

/// Reads a list in YAML (or JSON): [{name: ..., type: f32, from: LAYOUT, to: LAYOUT}, ...]; type is
/// f64 if omitted. from-lists and to-lists name the files of layouts with lists= (lists_file.hpp).
/// @throws core::Error invalid_argument naming the file, the field and what was expected
std::vector<PlannedField> read_fields(const std::string& file);

/// Returns a text with the totals, the busiest ranks and, if there are few ranks, the bytes of each
/// pair.
std::string fields_text(const std::vector<PlannedField>& fields);

}  // namespace tremula::cli
