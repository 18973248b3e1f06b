// SPDX-License-Identifier: Apache-2.0
#pragma once
// Jobs that use only the public C++ header, with a real server; ranks are threads.
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <tremula/tremula.hpp>
#include <vector>

#include "tests/coupled/jobs.hpp"

namespace tremula::testing {

/// Threads whose sessions state that rank r runs on hosts[r].
class Jobs {
public:
  Jobs() { stage_.start_server(); }
  ~Jobs() { join(); }
  void start(const std::string& group, const std::vector<std::string>& hosts,
             const std::function<void(Session&)>& body) {
    const int size = static_cast<int>(hosts.size());
    for (int rank = 0; rank < size; ++rank)
      threads_.emplace_back([=, this, host = hosts[static_cast<std::size_t>(rank)]] {
        try {
          Session session(group, rank, size,
                          {.server = stage_.server(),
                           .transport = "local",
                           .timeout = 20,
                           .more = "host: \"" + host + "\""});
          body(session);
        } catch (const std::exception& e) {
          const std::scoped_lock lock(mutex_);
          errors_ += group + ": " + e.what() + "\n";
        }
      });
  }
  std::string join() {
    for (auto& thread : threads_) thread.join();
    threads_.clear();
    return errors_;
  }

private:
  coupled::Stage stage_;
  std::mutex mutex_;
  std::string errors_;
  std::vector<std::thread> threads_;
};

}  // namespace tremula::testing
