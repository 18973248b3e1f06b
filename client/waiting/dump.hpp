// SPDX-License-Identifier: Apache-2.0
#pragma once
// SIGUSR1 prints what the sessions of this process wait for.
#include <functional>
#include <string>

namespace tremula::client {

/// While such objects exist in the process, SIGUSR1 writes the texts of all of them to standard error, provided that
/// the signal had its default action when the first object was made. An action that the application sets later is kept.
class DumpOnSignal {
public:
  /// @param text  called by a separate thread while this object exists; must not block for long
  explicit DumpOnSignal(std::function<std::string()> text);
  ~DumpOnSignal();
  DumpOnSignal(const DumpOnSignal&) = delete;
  DumpOnSignal& operator=(const DumpOnSignal&) = delete;

private:
  std::function<std::string()> text_;
};

}  // namespace tremula::client
