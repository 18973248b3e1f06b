! SPDX-License-Identifier: Apache-2.0
! consumer.cpp in Fortran.
program consumer
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use mpi_f08
  use tremula
  use tremula_mpi
  implicit none
  type(tremula_session) :: session
  type(tremula_layout) :: layout
  type(tremula_in_stream) :: in
  type(tremula_field) :: field
  real(real64), allocatable :: matrix(:, :)
  real(real64) :: total
  integer(int64) :: extents(2)

  call MPI_Init()
  call tremula_open(session, 'consumer', MPI_COMM_WORLD)
  call layout%block(shape=[1000, 800], grid=[1, session%size()], block_shape=[1000, 16])
  call layout%local(session%rank(), extents)
  allocate (matrix(extents(1), extents(2)))
  call in%open(session, 'matrix')
  call in%field('value', tremula_f64, layout, field)
  do while (in%next_step())
    call in%get(field, matrix)
    call in%end_step()

    call MPI_Reduce(sum(matrix), total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD)
    if (session%rank() == 0) print '(a, i0, a, f0.1)', 'step ', in%step(), ': mean ', total/800000
  end do
  call in%close()
  call session%close()
  call MPI_Finalize()
end program
