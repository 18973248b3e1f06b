// SPDX-License-Identifier: Apache-2.0
#include "client/c_api/c_api.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <functional>
#include <utility>

#include "client/c_api/sized_struct.hpp"
#include "client/session/version.hpp"
#include "transport/local/shared_memory.hpp"

namespace {

using namespace tremula;
using client::call, client::expects_pointer, client::guarded;

thread_local std::string last_error;

std::string text_or_empty(const char* text) { return text ? text : ""; }

proto::Field make_field(const char* name, tremula_type type, const tremula_layout* layout) {
  expects_pointer(name, "name");
  expects_pointer(layout, "layout");
  return {.name = name, .type = client::type_from(type), .layout = layout->layout};
}

template <class Byte>
std::span<Byte> make_span(Byte* data, std::size_t bytes, const char* name) {
  if (bytes != 0) expects_pointer(data, name);
  return {data, bytes};
}

void copy(const client::Statistics& from, tremula_statistics* to) {
  expects_pointer(to, "statistics");
  auto statistics = tremula_statistics_init();
  statistics.steps = from.steps;
  statistics.packages = from.traffic.packages;
  statistics.bytes = from.traffic.bytes;
  statistics.copied_bytes = from.traffic.copied_bytes;
  statistics.plan_seconds = from.plan_seconds;
  statistics.wait_seconds = from.wait_seconds;
  statistics.copy_seconds = from.traffic.copy_seconds;
  statistics.wire_seconds = from.traffic.wire_seconds;
  statistics.proved_bytes = from.traffic.proved_bytes;
  statistics.growths = from.traffic.growths;
  from.transport.copy(statistics.transport, sizeof statistics.transport - 1);
  statistics.dropped = from.dropped;
  statistics.queued_steps = from.queued_steps;
  statistics.queued_bytes = from.queued_bytes;
  statistics.passed = from.passed;
  client::write_struct(statistics, to);
}

tremula_status status_of(client::Begun begun) {
  switch (begun) {
    case client::Begun::not_ready:
      return TREMULA_NOT_READY;
    case client::Begun::end_of_stream:
      return TREMULA_END_OF_STREAM;
    case client::Begun::up_to_date:
      return TREMULA_UP_TO_DATE;
    case client::Begun::epoch:
      return TREMULA_EPOCH_CHANGED;
    case client::Begun::step:
      break;
  }
  return TREMULA_OK;
}

tremula_status begin_step_by(tremula_in_stream* in, client::Needed needed, int64_t time,
                             const char* unit) {
  return call(in, "in", [&] {
    return status_of(in->stream->begin_step_by(needed, time, unit != nullptr ? unit : ""));
  });
}

std::vector<std::pair<int, index_calc::Layout>> declared_again(
    int count, const int* fields, const tremula_layout* const* layouts) {
  core::expects(count > 0, [&] {
    return fmt::format("redeclare: expected at least one field, found {}", count);
  });
  expects_pointer(fields, "fields");
  expects_pointer(layouts, "layouts");
  std::vector<std::pair<int, index_calc::Layout>> of_fields;
  for (int i = 0; i < count; ++i) {
    expects_pointer(layouts[i], "layouts[i]");
    of_fields.emplace_back(fields[i], layouts[i]->layout);
  }
  return of_fields;
}

void copy(const std::vector<client::PeerStatistics>& from, tremula_peer_statistics* to, size_t room,
          size_t stride, size_t* count) {
  expects_pointer(count, "count");
  core::expects(room == 0 || to != nullptr, "peers: expected an array, found NULL");
  *count = from.size();
  for (std::size_t i = 0; i < std::min(room, from.size()); ++i) {
    const auto& traffic = from[i].traffic;
    auto peer = tremula_peer_statistics_init();
    peer.rank = from[i].rank.value;
    peer.packages = traffic.packages;
    peer.bytes = traffic.bytes;
    peer.copied_bytes = traffic.copied_bytes;
    peer.copy_seconds = traffic.copy_seconds;
    peer.wire_seconds = traffic.wire_seconds;
    from[i].path.copy(peer.path, sizeof peer.path - 1);
    from[i].group.copy(peer.group, sizeof peer.group - 1);
    client::write_struct(peer, client::element(to, i, stride));
  }
}

}  // namespace

tremula_status tremula::client::fail(tremula_status status, const std::string& text) noexcept {
  try {
    last_error = text;
  } catch (...) {
    last_error.clear();
  }
  return status;
}

tremula_status tremula_fail(tremula_status status, const char* text) {
  return client::fail(status, text != nullptr ? text : "");
}

const char* tremula_version(void) { return client::version; }
const char* tremula_last_error(void) { return last_error.c_str(); }

tremula_status tremula_session_open(const char* group, int rank, int size, const char* options,
                                    tremula_session** session) {
  return guarded([&] {
    expects_pointer(group, "group");
    expects_pointer(session, "session");
    const auto config = client::load_session_config(text_or_empty(options));
    *session = new tremula_session{
        client::Session::open(group, rank, size, config),
        std::make_shared<client::Gate>(fmt::format("session of group '{}'", group))};
  });
}

tremula_status tremula_allocate(size_t bytes, void** memory) {
  return guarded([&] {
    expects_pointer(memory, "memory");
    *memory = transport::local::allocate(bytes);
  });
}

tremula_status tremula_deallocate(void* memory) {
  return guarded([&] {
    if (memory != nullptr) transport::local::deallocate(static_cast<std::byte*>(memory));
  });
}

tremula_status tremula_session_close(tremula_session* session) {
  return guarded([&] {
    if (session == nullptr || !session->gate->is_at_home()) return TREMULA_OK;
    core::expects(!session->gate->is_inside(), [&] {
      return fmt::format(
          "session of group '{}': expected to be closed between its calls; found it closed by its "
          "`ask` function, inside a call: let that call end first",
          session->session->name());
    });
    {
      const auto entry = session->gate->enter_to_free();
      const auto open = session->session->set_up().open_streams();
      core::expects(open.empty(), [&] {
        return fmt::format(
            "session of group '{}': expected its streams to be closed or freed before it; found "
            "'{}' open: close or free them, and then the session",
            session->session->name(), fmt::join(open, "', '"));
      });
    }
    delete session;
    return TREMULA_OK;
  });
}

tremula_status tremula_session_ask(tremula_session* session, tremula_ask ask, void* context) {
  return call(session, "session", [&] {
    std::function<bool()> is_over;
    if (ask != nullptr) is_over = [ask, context] { return ask(context) != 0; };
    session->session->control().waits().ask_by(std::move(is_over));
  });
}

int tremula_session_rank(const tremula_session* session) {
  return session ? session->session->rank().value : -1;
}
int tremula_session_size(const tremula_session* session) {
  return session ? session->session->size() : -1;
}

tremula_status tremula_session_allgather(tremula_session* session, const void* mine, size_t bytes,
                                         void* all) {
  return call(session, "session", [&] {
    if (bytes > 0) expects_pointer(mine, "mine");
    if (bytes > 0) expects_pointer(all, "all");
    auto& group = *session->session;
    group.begin_call("session_allgather", "", 0);
    const auto view = std::span(static_cast<const std::byte*>(mine), bytes);
    const auto parts = group.allgather({view.begin(), view.end()}, group.deadline());
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      if (parts[rank].size() != parts[0].size())
        throw core::Error(core::Errc::mismatch,
                          fmt::format("group '{}': expected all ranks to pass the same number of "
                                      "bytes; found {} on rank {} and {} on rank 0",
                                      group.name(), parts[rank].size(), rank, parts[0].size()));
    }
    for (std::size_t rank = 0; rank < parts.size(); ++rank)  // all are as long as this rank's
      std::copy(parts[rank].begin(), parts[rank].end(),
                static_cast<std::byte*>(all) + rank * bytes);
  });
}

tremula_status tremula_out_open(tremula_session* session, const char* stream, const char* options,
                                tremula_out_stream** out) {
  return call(session, "session", [&] {
    expects_pointer(stream, "stream");
    expects_pointer(out, "out");
    const auto config = client::load_out_config(text_or_empty(options));
    *out = new tremula_out_stream{
        std::make_unique<client::OutStream>(*session->session, stream, config), session->gate};
  });
}

tremula_status tremula_out_field(tremula_out_stream* out, const char* name, tremula_type type,
                                 const tremula_layout* layout, int* field) {
  return call(out, "out", [&] {
    expects_pointer(field, "field");
    *field = out->stream->declare(make_field(name, type, layout));
  });
}

tremula_status tremula_out_part(tremula_out_stream* out, const char* name, tremula_type type,
                                const tremula_layout* layout, const int64_t* origin,
                                const int64_t* shape, int* field) {
  return call(out, "out", [&] {
    expects_pointer(field, "field");
    expects_pointer(origin, "origin");
    expects_pointer(shape, "shape");
    auto part = make_field(name, type, layout);
    part.origin.assign(origin, origin + dimensions(part.layout));
    part.whole.assign(shape, shape + dimensions(part.layout));
    *field = out->stream->declare(std::move(part));
  });
}

tremula_status tremula_out_begin_step(tremula_out_stream* out) {
  return call(out, "out", [&] { out->stream->begin_step(); });
}

tremula_status tremula_out_begin_step_within(tremula_out_stream* out, double seconds) {
  return call(out, "out", [&] {
    return out->stream->begin_step_until(core::Deadline::after(seconds)) ? TREMULA_OK
                                                                         : TREMULA_NOT_READY;
  });
}

tremula_status tremula_out_redeclare(tremula_out_stream* out, int count, const int* fields,
                                     const tremula_layout* const* layouts) {
  return call(out, "out", [&] { out->stream->redeclare(declared_again(count, fields, layouts)); });
}

tremula_status tremula_out_serve(tremula_out_stream* out, double seconds) {
  return call(out, "out", [&] { out->stream->serve(core::Deadline::after(seconds)); });
}

tremula_status tremula_out_is_ready(tremula_out_stream* out, int* is_ready) {
  return call(out, "out", [&] {
    expects_pointer(is_ready, "is_ready");
    *is_ready = out->stream->poll_ready() ? 1 : 0;
  });
}

tremula_status tremula_out_put(tremula_out_stream* out, int field, const void* data, size_t bytes) {
  return call(out, "out", [&] {
    out->stream->put(field, make_span(static_cast<const std::byte*>(data), bytes, "data"));
  });
}

tremula_status tremula_out_put_async(tremula_out_stream* out, int field, const void* data,
                                     size_t bytes, uint64_t* request) {
  return call(out, "out", [&] {
    expects_pointer(request, "request");
    *request = out->stream->put_async(
        field, make_span(static_cast<const std::byte*>(data), bytes, "data"));
  });
}

tremula_status tremula_out_test(tremula_out_stream* out, uint64_t request, int* is_taken) {
  return call(out, "out", [&] {
    expects_pointer(is_taken, "is_taken");
    *is_taken = out->stream->poll_taken(request) ? 1 : 0;
  });
}

tremula_status tremula_out_wait(tremula_out_stream* out, uint64_t request) {
  return call(out, "out", [&] { out->stream->wait_taken(request); });
}

tremula_status tremula_out_end_step(tremula_out_stream* out) {
  return call(out, "out", [&] { out->stream->end_step(); });
}

tremula_status tremula_out_close(tremula_out_stream* out) {
  return call(out, "out", [&] { out->stream->close(); });
}

void tremula_out_free(tremula_out_stream* out) { client::free_stream(out); }

tremula_status tremula_in_open(tremula_session* session, const char* stream, const char* options,
                               tremula_in_stream** in) {
  return call(session, "session", [&] {
    expects_pointer(stream, "stream");
    expects_pointer(in, "in");
    const auto config = client::load_in_config(text_or_empty(options));
    *in = new tremula_in_stream{
        std::make_unique<client::InStream>(*session->session, stream, config), session->gate};
  });
}

tremula_status tremula_in_field(tremula_in_stream* in, const char* name, tremula_type type,
                                const tremula_layout* layout, int* field) {
  return call(in, "in", [&] {
    expects_pointer(field, "field");
    *field = in->stream->declare(make_field(name, type, layout));
  });
}

tremula_status tremula_in_update(tremula_in_stream* in, const char* name,
                                 const tremula_update* update, int* field) {
  return call(in, "in", [&] {
    expects_pointer(field, "field");
    const auto known = client::read_update(update);
    auto wanted = make_field(name, known.to_type, known.to);
    const auto how = client::update_from(known, dimensions(wanted.layout));
    *field = in->stream->declare(std::move(wanted), how);
  });
}

tremula_status tremula_in_begin_step(tremula_in_stream* in) {
  return call(in, "in", [&] { return status_of(in->stream->begin(std::nullopt)); });
}

tremula_status tremula_in_begin_step_within(tremula_in_stream* in, double seconds) {
  return call(in, "in",
              [&] { return status_of(in->stream->begin(core::Deadline::after(seconds))); });
}

tremula_status tremula_in_begin_step_at(tremula_in_stream* in, int64_t time, const char* unit) {
  return begin_step_by(in, client::Needed::at, time, unit);
}

tremula_status tremula_in_begin_step_around(tremula_in_stream* in, int64_t time, const char* unit) {
  return begin_step_by(in, client::Needed::around, time, unit);
}

tremula_status tremula_in_is_ready(tremula_in_stream* in, int* is_ready) {
  return call(in, "in", [&] {
    expects_pointer(is_ready, "is_ready");
    *is_ready = in->stream->poll_ready() ? 1 : 0;
  });
}

tremula_status tremula_in_step(const tremula_in_stream* in, uint64_t* step) {
  return call(in, "in", [&] {
    expects_pointer(step, "step");
    *step = in->stream->step();
  });
}

tremula_status tremula_in_layout(const tremula_in_stream* in, int field, tremula_layout** layout) {
  return call(in, "in", [&] {
    expects_pointer(layout, "layout");
    client::make_layout(in->stream->layout(field), layout);
  });
}

tremula_status tremula_in_redeclare(tremula_in_stream* in, int count, const int* fields,
                                    const tremula_layout* const* layouts) {
  return call(in, "in", [&] { in->stream->redeclare(declared_again(count, fields, layouts)); });
}

tremula_status tremula_in_redeclarations(const tremula_in_stream* in, uint64_t* count) {
  return call(in, "in", [&] {
    expects_pointer(count, "count");
    *count = in->stream->redeclarations();
  });
}

tremula_status tremula_in_get(tremula_in_stream* in, int field, void* data, size_t bytes) {
  return call(in, "in", [&] {
    in->stream->get(field, make_span(static_cast<std::byte*>(data), bytes, "data"));
  });
}

tremula_status tremula_in_fills(const tremula_in_stream* in, int field, int* fills) {
  return call(in, "in", [&] {
    expects_pointer(fills, "fills");
    *fills = in->stream->fills(field) ? 1 : 0;
  });
}

tremula_status tremula_in_end_step(tremula_in_stream* in) {
  return call(in, "in", [&] { in->stream->end_step(); });
}

tremula_status tremula_in_close(tremula_in_stream* in) {
  return call(in, "in", [&] { in->stream->close(); });
}

void tremula_in_free(tremula_in_stream* in) { client::free_stream(in); }

tremula_status tremula_out_statistics(const tremula_out_stream* out,
                                      tremula_statistics* statistics) {
  return call(out, "out", [&] { copy(out->stream->statistics(), statistics); });
}

tremula_status tremula_in_statistics(const tremula_in_stream* in, tremula_statistics* statistics) {
  return call(in, "in", [&] { copy(in->stream->statistics(), statistics); });
}

tremula_status tremula_out_step_statistics(const tremula_out_stream* out,
                                           tremula_statistics* statistics) {
  return call(out, "out", [&] { copy(out->stream->step_statistics(), statistics); });
}

tremula_status tremula_in_step_statistics(const tremula_in_stream* in,
                                          tremula_statistics* statistics) {
  return call(in, "in", [&] { copy(in->stream->step_statistics(), statistics); });
}

tremula_status tremula_out_peers(const tremula_out_stream* out, tremula_peer_statistics* peers,
                                 size_t room, size_t stride, size_t* count) {
  return call(out, "out",
              [&] { copy(out->stream->peer_statistics(), peers, room, stride, count); });
}

tremula_status tremula_in_peers(const tremula_in_stream* in, tremula_peer_statistics* peers,
                                size_t room, size_t stride, size_t* count) {
  return call(in, "in", [&] { copy(in->stream->peer_statistics(), peers, room, stride, count); });
}
