// SPDX-License-Identifier: Apache-2.0
// matrix_peer produce|consume LAYOUT STEPS: a job in C++ whose peer is a job in Python. Element (i, j) of the
// matrix is 1e6 * step + its number in row-major order; a consumer checks every element. The ranks come from
// RANK and WORLD_SIZE.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tremula/tremula.hpp>
#include <vector>

namespace {

using tremula::Index;

/// Calls visit(offset in the buffer, number of the element) for all elements of `rank`.
template <class Visit>
void for_each_element(const tremula::Layout& layout, int rank, Visit visit) {
  const auto local = layout.local(rank);
  const auto shape = layout.shape();
  for (Index i = 0; i < local.extents[0]; ++i)
    for (Index j = 0; j < local.extents[1]; ++j)
      visit(static_cast<std::size_t>(local.first + i * local.strides[0] + j * local.strides[1]),
            layout.global_index(rank, 0, i) * shape[1] + layout.global_index(rank, 1, j));
}

double value_of(int step, Index number) { return 1e6 * step + static_cast<double>(number); }

void produce(tremula::Session& session, const tremula::Layout& layout, int steps) {
  auto out = session.out_stream("matrix");
  const auto field = out.field<double>("value", layout);
  out.attribute("time_unit", "s");
  out.attribute(field, "units", "K");
  std::vector<double> data(static_cast<std::size_t>(layout.local(session.rank()).allocated));
  for (int step = 0; step < steps; ++step) {
    for_each_element(layout, session.rank(),
                     [&](std::size_t at, Index number) { data[at] = value_of(step, number); });
    out.begin_step();
    out.time(3600 * step);
    out.step_attribute("iterations", std::vector{step, 2});
    out.put(field, data);
    out.end_step();
  }
  out.close();
}

void consume(tremula::Session& session, const tremula::Layout& layout, int steps) {
  auto in = session.in_stream("matrix");
  const auto field = in.field<double>("value", layout);
  std::vector<double> data(static_cast<std::size_t>(layout.local(session.rank()).allocated));
  int step = 0;
  for (; in.begin_step() == tremula::StepStatus::ok; ++step) {
    if (in.time() != 3600 * step ||
        in.step_attributes().values<std::int64_t>("iterations").at(0) != step ||
        in.attributes(field).value<std::string>("units") != "K")
      throw std::runtime_error("step " + std::to_string(step) + ": wrong time or attribute");
    in.get(field, data);
    in.end_step();
    for_each_element(layout, session.rank(), [&](std::size_t at, Index number) {
      if (data[at] != value_of(step, number))
        throw std::runtime_error(
            "step " + std::to_string(step) + ", element " + std::to_string(number) + ": expected " +
            std::to_string(value_of(step, number)) + ", found " + std::to_string(data[at]));
    });
  }
  in.close();
  if (step != steps)
    throw std::runtime_error("expected " + std::to_string(steps) + " steps, found " +
                             std::to_string(step));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 4)
      throw std::runtime_error("expected produce or consume, a layout and a number of steps");
    const std::string role = argv[1];
    tremula::Session session(role);
    const auto layout = tremula::Layout::parse(argv[2]);
    (role == "produce" ? produce : consume)(session, layout, std::atoi(argv[3]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "matrix_peer: %s\n", error.what());
    return 1;
  }
}
