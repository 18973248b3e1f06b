// SPDX-License-Identifier: Apache-2.0
// Moves the parameters of facebook/opt-350m from 4 ranks that hold them in f32, split along dimension
// 0, to 2 x 2 ranks that hold them in bf16, tensor-parallel and replicated. Every element of every
// version is checked.
//
//   TREMULA_SERVER=HOST:PORT mpirun -n 4 tremula_weights_bench producer ARRAYS VERSIONS
//   TREMULA_SERVER=HOST:PORT mpirun -n 4 tremula_weights_bench consumer ARRAYS VERSIONS
//   mpirun -n 8 tremula_weights_bench by_hand VERSIONS
//
// The first two are jobs that share a stream, of kind state unless ARRAYS is ordinary. ARRAYS is one of:
//
//   lent      the producer's arrays are in memory that peers map, and are not copied (versions: lend)
//   snapshot  the producer's arrays are copied when they are put
//   ordinary  a stream of steps with queue_depth 0, and no array in memory that peers map
//
// The third program does the same by hand in one job: it gathers each tensor on rank 0, as bf16, and
// broadcasts it; each rank takes its slice.
//
// Version 0 touches the memory and is not timed. Rank 0 prints lines of a name and a number. For each
// version, these are "put" and "got", the times when the first rank began to put it and when the last
// rank had it; "memcpy", in which all consumer ranks simultaneously copy the number of bytes that each
// of them writes; or, by hand, "by_hand". "set-up" lasts from the first declaration to the end of the
// first begin_step. These numbers are seconds of the clock that the processes of a host share.
// "tensors" is the number of tensors; "bytes" is the size of the arrays of all consumer ranks.
#include <mpi.h>
#include <tremula/tremula_mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "tests/coupled/weights.hpp"

namespace tremula::weights {
namespace {

constexpr Holding trained{.parts = 4}, served{.copies = 2, .parts = 2, .is_tensor_parallel = true};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double over_all(double mine, MPI_Op op) {
  double found = 0;
  MPI_Allreduce(&mine, &found, 1, MPI_DOUBLE, op, MPI_COMM_WORLD);
  return found;
}
int rank_of(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}
void print(const char* name, double value) {
  if (rank_of(MPI_COMM_WORLD) == 0) std::printf("%s %.6f\n", name, value);
}

template <class T>
std::span<const T> view(const std::vector<T>& array) {
  return array;
}
template <class T>
std::span<const T> view(const SharedArray<T>& array) {
  return {array.data(), array.size()};
}
template <class Array>
std::vector<Array> arrays_of(const std::vector<Piece>& pieces) {
  std::vector<Array> arrays;
  for (const Piece& piece : pieces) arrays.emplace_back(piece.size());
  return arrays;
}

/// A barrier with the ranks of the other job: a stream whose payload has no meaning.
class Signal {
public:
  Signal(Session& session, const std::string& name, bool signals) {
    const auto layout = Layout::block({.shape = {session.size()}, .grid = {session.size()}});
    if (signals)
      field_ = out_.emplace(session.out_stream(name)).field<int>("here", layout);
    else
      field_ = in_.emplace(session.in_stream(name)).field<int>("here", layout);
  }
  /// Signals the other job, or waits for its signal.
  void meet() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (out_) {
      out_->put(field_, one_);
    } else {
      in_->begin_step();
      in_->get(field_, one_);
      in_->end_step();
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  void close() { out_ ? out_->close() : in_->close(); }

private:
  std::optional<OutStream> out_;
  std::optional<InStream> in_;
  Field<int> field_;
  std::vector<int> one_ = {1};
};

OutOptions options_of(const std::string& arrays) {
  if (arrays == "ordinary") return {.queue_depth = 0};
  return {.kind = Kind::state, .versions = arrays == "lent" ? Versions::lend : Versions::snapshot};
}

template <class Array>
void produce(const std::string& kind, std::uint64_t versions) {
  Session session("trained", MPI_COMM_WORLD);
  Signal filled(session, "filled", true), ready(session, "ready", false);
  const auto pieces = pieces_of(opt_350m, trained, session.rank());
  auto arrays = arrays_of<Array>(pieces);
  ready.meet();
  const double begin = over_all(now(), MPI_MIN);
  OutStream out = session.out_stream("weights", options_of(kind));
  std::vector<Field<float>> fields;
  for (const Piece& piece : pieces)
    fields.push_back(out.field<float>(piece.name(), piece.layout()));
  for (std::uint64_t v = 0; v <= versions; ++v) {
    out.begin_step();
    if (v == 0) print("set-up", over_all(now(), MPI_MAX) - begin);
    for (std::size_t t = 0; t < pieces.size(); ++t)
      pieces[t].fill(std::span<float>(arrays[t].data(), arrays[t].size()), v);
    if (v > 0) filled.meet(), ready.meet(), print("put", over_all(now(), MPI_MIN));
    for (std::size_t t = 0; t < pieces.size(); ++t) out.put(fields[t], view(arrays[t]));
    out.end_step();
  }
  filled.meet();  // waits until the consumer has checked the last version
  out.close();
  filled.close();
  ready.close();
}

void consume(std::uint64_t versions) {
  Session session("served", MPI_COMM_WORLD);
  Signal filled(session, "filled", false), ready(session, "ready", true);
  const auto pieces = pieces_of(opt_350m, served, session.rank());
  auto arrays = arrays_of<std::vector<BF16>>(pieces);
  std::size_t bytes = 0;
  for (const auto& array : arrays) bytes += array.size() * sizeof(BF16);
  std::vector<char> from(bytes, 1), to(bytes, 2);
  const auto copy = [&] {
    const double begin = over_all(now(), MPI_MIN);
    std::memcpy(to.data(), from.data(), bytes);
    print("memcpy", over_all(now(), MPI_MAX) - begin);
  };
  ready.meet();
  InStream in = session.in_stream("weights");
  std::vector<Field<BF16>> fields;
  for (const Piece& piece : pieces) fields.push_back(in.field<BF16>(piece.name(), piece.layout()));
  for (std::uint64_t v = 0; v <= versions; ++v) {
    if (v > 0) filled.meet(), copy(), ready.meet();
    if (in.begin_step() != StepStatus::ok) throw std::runtime_error("expected a version");
    for (std::size_t t = 0; t < pieces.size(); ++t) in.get(fields[t], arrays[t]);
    in.end_step();
    if (v > 0) print("got", over_all(now(), MPI_MAX));
    for (std::size_t t = 0; t < pieces.size(); ++t) {
      pieces[t].check(view(arrays[t]), v);
      std::fill(arrays[t].begin(), arrays[t].end(), BF16{});
    }
  }
  print("tensors", static_cast<double>(pieces.size()));
  print("bytes", over_all(static_cast<double>(bytes), MPI_SUM));
  filled.meet();
  in.close();
  filled.close();
  ready.close();
}

/// Returns `value` rounded to the nearest number of bf16, as in a hand-written program.
BF16 nearest(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return {static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}

/// Moves the tensors as a hand-written program would: one by one, each converted at its source.
void by_hand(std::uint64_t versions) {
  const int me = rank_of(MPI_COMM_WORLD), producers = trained.ranks();
  const bool produces = me < producers;
  MPI_Comm group = MPI_COMM_NULL, takers = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, produces ? 0 : 1, me, &group);
  MPI_Comm_split(MPI_COMM_WORLD, me == 0 || !produces ? 0 : MPI_UNDEFINED, me, &takers);
  const auto mine =
      pieces_of(opt_350m, produces ? trained : served, produces ? me : me - producers);
  std::vector<std::vector<float>> weights(mine.size());
  std::vector<std::vector<BF16>> copies(mine.size());
  for (std::size_t t = 0; t < mine.size(); ++t) {
    if (produces)
      weights[t].resize(mine[t].size());
    else
      copies[t].resize(mine[t].size());
  }
  const auto tensors = tensors_of(opt_350m);
  std::vector<BF16> part, whole;
  for (std::uint64_t v = 0; v <= versions; ++v) {
    for (std::size_t t = 0; t < mine.size(); ++t)
      if (produces) mine[t].fill(std::span(weights[t]), v);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = over_all(now(), MPI_MIN);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const auto& shape = tensors[t].shape;
      const int rows = static_cast<int>(shape[0]),
                columns = static_cast<int>(shape.size() > 1 ? shape[1] : 1);
      const auto count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
      if (me == 0 || !produces) whole.resize(std::max(whole.size(), count));
      if (produces) {
        part.resize(weights[t].size());
        for (std::size_t i = 0; i < part.size(); ++i) part[i] = nearest(weights[t][i]);
        std::vector<int> counts, firsts;
        const int each = (rows + producers - 1) / producers;
        for (int p = 0; p < producers; ++p) {
          firsts.push_back(std::min(rows, each * p) * columns);
          counts.push_back(std::min(rows, each * (p + 1)) * columns - firsts.back());
        }
        MPI_Gatherv(part.data(), static_cast<int>(part.size()), MPI_UINT16_T, whole.data(),
                    counts.data(), firsts.data(), MPI_UINT16_T, 0, group);
      }
      if (takers == MPI_COMM_NULL) continue;
      MPI_Bcast(whole.data(), static_cast<int>(count), MPI_UINT16_T, 0, takers);
      if (produces) continue;
      BF16* to = copies[t].data();
      mine[t].for_each_row([&](Index first_of_row, Index length) {
        to = std::copy_n(whole.data() + first_of_row, length, to);
      });
    }
    if (v > 0) print("by_hand", over_all(now(), MPI_MAX) - begin);
    for (std::size_t t = 0; t < mine.size(); ++t) {
      if (!produces) mine[t].check(view(copies[t]), v);
      std::fill(copies[t].begin(), copies[t].end(), BF16{});
    }
  }
}

void run(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "", arrays = argc > 2 ? argv[2] : "";
  if (argc != (role == "by_hand" ? 3 : 4))
    throw std::runtime_error(
        "usage: tremula_weights_bench producer|consumer lent|snapshot|ordinary VERSIONS, or "
        "by_hand VERSIONS");
  const std::uint64_t versions = std::strtoull(argv[argc - 1], nullptr, 10);
  if (role == "by_hand")
    by_hand(versions);
  else if (role == "consumer")
    consume(versions);
  else if (arrays == "lent")
    produce<SharedArray<float>>(arrays, versions);
  else
    produce<std::vector<float>>(arrays, versions);
}

}  // namespace
}  // namespace tremula::weights

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    tremula::weights::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
