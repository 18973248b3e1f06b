// SPDX-License-Identifier: Apache-2.0
// coupled_circle --group G --opens "put y" --acts "put x get y sleep 2 await F make F" --session YAML:
// one rank of a job that puts and gets 64 numbers per step. `opens`: streams to declare at the
// beginning; other streams are declared when first used. await F: wait for file F; make F: create it.
// Writes a line after each act. If a call fails, writes a line with the status and the text of the
// error, and ends immediately.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <vector>

#include "tests/coupled/program.hpp"

namespace tremula::coupled {

namespace {

/// One end of a stream of 64 numbers in blocks; every number of step s is s.
class End {
public:
  End(tremula_session* session, const std::string& name, bool puts, const std::string& options) {
    const auto ranks = std::to_string(tremula_session_size(session));
    const Layout layout = parse_layout("shape=64 grid=" + ranks);
    part_.resize(64 / static_cast<std::size_t>(tremula_session_size(session)));
    if (puts) {
      tremula_out_stream* out = nullptr;
      expect_ok(tremula_out_open(session, name.c_str(), options.c_str(), &out), "open " + name);
      out_.reset(out);
      expect_ok(tremula_out_field(out, "f", TREMULA_F64, layout.get(), &field_), "declare");
    } else {
      tremula_in_stream* in = nullptr;
      expect_ok(tremula_in_open(session, name.c_str(), options.c_str(), &in), "open " + name);
      in_.reset(in);
      expect_ok(tremula_in_field(in, "f", TREMULA_F64, layout.get(), &field_), "declare");
    }
  }
  void move() {
    const auto bytes = part_.size() * sizeof(double);
    if (out_) {
      part_.assign(part_.size(), step_);
      expect_ok(tremula_out_begin_step(out_.get()), "begin_step to put");
      expect_ok(tremula_out_put(out_.get(), field_, part_.data(), bytes), "put");
      expect_ok(tremula_out_end_step(out_.get()), "end_step of a put");
    } else {
      expect_ok(tremula_in_begin_step(in_.get()), "begin_step to get");
      expect_ok(tremula_in_get(in_.get(), field_, part_.data(), bytes), "get");
      expect_ok(tremula_in_end_step(in_.get()), "end_step of a get");
      for (const double found : part_)
        if (found != step_) throw std::runtime_error("a wrong number: " + std::to_string(found));
    }
    ++step_;
  }
  void close() {
    expect_ok(out_ ? tremula_out_close(out_.get()) : tremula_in_close(in_.get()), "close");
  }

private:
  int field_ = -1;
  double step_ = 0;
  OutStream out_;
  InStream in_;
  std::vector<double> part_;
};

void play(tremula_session* session, const Options& options) {
  std::map<std::string, End> ends;
  const auto open = [&](const std::string& verb, const std::string& name) -> End& {
    return ends
        .try_emplace(name, session, name, verb == "put",
                     options.text(verb == "put" ? "stream-options" : "in-options", "{}"))
        .first->second;
  };
  std::istringstream opens(options.text("opens"));
  for (std::string verb, name; opens >> verb >> name;) open(verb, name);
  std::istringstream acts(options.text("acts"));
  for (std::string verb, of; acts >> verb >> of;) {
    if (verb == "sleep") {
      usleep(static_cast<useconds_t>(1e6 * std::stod(of)));
    } else if (verb == "await") {
      while (!std::filesystem::exists(of)) usleep(5000);
    } else if (verb == "make") {
      std::ofstream(of) << "\n";
    } else {
      open(verb, of).move();
    }
    std::cout << verb << ' ' << of << std::endl;
  }
  for (auto& [name, end] : ends) end.close();
}

}  // namespace

}  // namespace tremula::coupled

int main(int argc, char** argv) {
  using namespace tremula::coupled;
  return run_program(argc, argv, [](const Options& options, const MaybeMpi& mpi) {
    const Session session = open_session(mpi, options.text("group"), options.text("session", "{}"));
    play(session.get(), options);
  });
}
