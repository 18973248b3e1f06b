// SPDX-License-Identifier: Apache-2.0
#pragma once
// SIGUSR1 tells what the sessions of this process wait for.
#include <functional>
#include <string>

namespace tremula::client {

/// As long as one lives in the process, SIGUSR1 writes the texts of all of them to standard error: if
/// the signal had its default action when the first one came. An action that the application takes
/// later stays.
class DumpOnSignal {
public:
  /// @param text  called by a thread of its own while this object lives; may wait for nothing long
  explicit DumpOnSignal(std::function<std::string()> text);
  ~DumpOnSignal();
  DumpOnSignal(const DumpOnSignal&) = delete;
  DumpOnSignal& operator=(const DumpOnSignal&) = delete;

private:
  std::function<std::string()> text_;
};

}  // namespace tremula::client
