// SPDX-License-Identifier: Apache-2.0
#include "client/c_api/guarded.hpp"
#include "client/mpi/libtremula.hpp"
#include "transport/mpi/group.hpp"
#include "transport/mpi/transport.hpp"
#include "tremula/tremula_mpi.h"

namespace {

using namespace tremula;

class MpiCommunicator final : public client::Communicator {
public:
  explicit MpiCommunicator(MPI_Comm comm) : comm_(comm) {}
  std::unique_ptr<transport::Group> group(double timeout) override {
    return std::make_unique<transport::mpi::Group>(comm_, timeout);
  }
  Wire wire(double timeout) override {
    auto mpi = std::make_unique<transport::mpi::Transport>(comm_, timeout);
    std::string why_not = mpi->why_not();
    return {std::move(mpi), std::move(why_not)};
  }
  void check() const override { transport::mpi::expect_running(); }

private:
  MPI_Comm comm_;  // used only while a session is opened: the application may free it later
};

}  // namespace

tremula_status tremula_session_open_mpi(const char* group, MPI_Comm comm, const char* options,
                                        tremula_session** session) {
  return client::guarded([&] {
    client::expects_pointer(group, "group");
    client::expects_pointer(session, "session");
    *session = client::mpi::libtremula().open_session(
        group, std::make_shared<MpiCommunicator>(comm), options ? options : "");
  });
}

tremula_status tremula_session_open_mpi_f(const char* group, MPI_Fint comm, const char* options,
                                          tremula_session** session) {
  return tremula_session_open_mpi(group, MPI_Comm_f2c(comm), options, session);
}
