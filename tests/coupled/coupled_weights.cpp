// SPDX-License-Identifier: Apache-2.0
// coupled_weights --group trained|served --to tensor_parallel|sharded --versions V --transport T: one rank
// of a job of 4 ranks that holds the parameters of a small transformer in f32, or of a job of 4 ranks that
// takes the parameters. With --to tensor_parallel, shards along dimension 0 on 4 ranks are sent to 2 x 2
// ranks, as bf16. With --to sharded, the parameters are sent in the reverse direction, as f32. Checks
// every element of every version, and the bytes and messages that the layouts require.
#include "tests/coupled/program.hpp"
#include "tests/coupled/weights.hpp"

namespace tremula::weights {
namespace {

using coupled::MaybeMpi, coupled::Options;

constexpr Holding sharded{.parts = 4},
    tensor_parallel{.copies = 2, .parts = 2, .is_tensor_parallel = true};

/// How many elements rank `me` of `from` sends per version: every rank of `to` gets its whole piece, and
/// ranks of `from` that hold the same elements send equal parts of them, in whole lines.
struct Share {
  std::uint64_t all = 0;   ///< elements sent by this rank and the ranks that hold the same elements
  std::uint64_t most = 0;  ///< upper bound on the elements that one of them sends
};
Share share_of(const Holding& from, int me, const Holding& to) {
  Share share;
  const auto tensors = tensors_of(tiny);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const Piece mine(t, tensors[t], from, me);
    const Index copies = from.copies_of(tensors[t]), copies_there = to.copies_of(tensors[t]);
    const int distinct = static_cast<int>(to.ranks() / copies_there);  // the first ranks
    for (int cell = 0; cell < distinct; ++cell) {
      const Piece theirs(t, tensors[t], to, cell);
      const Index extents[] = {mine.common(theirs, 0), mine.common(theirs, 1)};
      const Index lines = std::max(extents[0], extents[1]);
      if (extents[0] * extents[1] == 0) continue;
      const Index line = extents[0] * extents[1] / lines;
      share.all += static_cast<std::uint64_t>(lines * line * copies_there);
      share.most += static_cast<std::uint64_t>((lines * copies_there + copies - 1) / copies * line);
    }
  }
  return share;
}

void expect(std::uint64_t found, std::uint64_t expected, const std::string& what) {
  if (found != expected)
    throw std::runtime_error("expected " + std::to_string(expected) + ' ' + what + ", found " +
                             std::to_string(found));
}

/// Checks that there was one message for each peer and version.
template <class Stream>
void check_messages(const Stream& stream, std::uint64_t versions) {
  std::uint64_t peers = 0;
  for (const auto& peer : stream.peers()) {
    if (peer.bytes == 0) continue;
    ++peers;
    expect(peer.packages, versions, "messages with rank " + std::to_string(peer.rank));
  }
  expect(stream.statistics().packages, versions * peers, "messages");
}

void produce(Session& session, const Holding& held, const Holding& theirs, std::uint64_t versions) {
  const auto pieces = pieces_of(tiny, held, session.rank());
  OutStream out = session.out_stream("weights");
  std::vector<Field<float>> fields;
  for (const Piece& piece : pieces)
    fields.push_back(out.field<float>(piece.name(), piece.layout()));
  std::vector<float> array;
  for (std::uint64_t v = 0; v < versions; ++v) {
    out.begin_step();
    for (std::size_t t = 0; t < pieces.size(); ++t) {
      array.resize(pieces[t].size());
      pieces[t].fill(std::span(array), v);
      out.put(fields[t], array);
    }
    out.end_step();
  }
  check_messages(out, versions);
  const Share share = share_of(held, session.rank(), theirs);
  const std::uint64_t sent = out.statistics().bytes / sizeof(float);
  if (held.copies == 1) expect(sent, versions * share.all, "elements sent");
  if (sent > versions * share.most)
    throw std::runtime_error("expected at most " + std::to_string(versions * share.most) +
                             " elements sent, found " + std::to_string(sent));
  out.close();
}

template <class T>
void consume(Session& session, const Holding& held, std::uint64_t versions) {
  const auto pieces = pieces_of(tiny, held, session.rank());
  InStream in = session.in_stream("weights");
  std::vector<Field<T>> fields;
  for (const Piece& piece : pieces) fields.push_back(in.field<T>(piece.name(), piece.layout()));
  std::vector<std::vector<T>> arrays;
  std::uint64_t elements = 0, v = 0;
  for (const Piece& piece : pieces) {
    arrays.emplace_back(piece.size());
    elements += piece.size();
  }
  for (; in.begin_step() == StepStatus::ok; ++v) {
    for (std::size_t t = 0; t < pieces.size(); ++t) in.get(fields[t], arrays[t]);
    in.end_step();
    for (std::size_t t = 0; t < pieces.size(); ++t) {
      pieces[t].check(std::span<const T>(arrays[t]), v);
      std::fill(arrays[t].begin(), arrays[t].end(), T{});
    }
  }
  expect(v, versions, "versions");
  check_messages(in, versions);
  expect(in.statistics().bytes / sizeof(float), versions * elements, "elements received");
  in.close();
}

}  // namespace
}  // namespace tremula::weights

int main(int argc, char** argv) {
  using namespace tremula::weights;
  return tremula::coupled::run_program(argc, argv, [](const Options& options, const MaybeMpi&) {
    const std::string group = options.text("group");
    const bool is_back = options.text("to") == "sharded";
    const Holding &from = is_back ? tensor_parallel : sharded,
                  &to = is_back ? sharded : tensor_parallel;
    const auto versions = static_cast<std::uint64_t>(options.number("versions", 1));
    tremula::SessionOptions how;
    how.transport = options.text("transport");
    tremula::Session session(group, MPI_COMM_WORLD, how);
    if (group == "trained")
      produce(session, from, to, versions);
    else if (is_back)
      consume<float>(session, to, versions);
    else
      consume<tremula::BF16>(session, to, versions);
  });
}
