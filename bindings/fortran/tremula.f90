! SPDX-License-Identifier: Apache-2.0
!> Tremula for Fortran 2008: separate parallel jobs share distributed arrays. Programs with an MPI communicator also use
!> tremula_mpi.
module tremula
  use tremula_errors, only: tremula_error_text, tremula_version, tremula_ok, tremula_end_of_stream, tremula_not_ready, &
    tremula_up_to_date, tremula_epoch_changed, tremula_invalid_argument, tremula_timed_out, tremula_transport, &
    tremula_protocol, tremula_peer_lost, tremula_no_server, tremula_refused, tremula_mismatch, tremula_unsupported, &
    tremula_cancelled, tremula_deadlock, tremula_interrupted, tremula_internal
  use tremula_layouts
  use tremula_streams, only: tremula_session, tremula_field, tremula_out_stream, tremula_in_stream, tremula_change
  use tremula_memory
  use tremula_c, only: tremula_statistics
  implicit none
  public
end module
