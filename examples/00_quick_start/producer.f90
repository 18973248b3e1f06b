! SPDX-License-Identifier: Apache-2.0
! producer.cpp in Fortran. The first index is the row.
program producer
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use mpi_f08
  use tremula
  use tremula_mpi
  implicit none
  type(tremula_session) :: session
  type(tremula_layout) :: layout
  type(tremula_out_stream) :: out
  type(tremula_field) :: field
  real(real64), allocatable :: matrix(:, :)
  integer(int64) :: extents(2), row, first, j
  integer :: step

  call MPI_Init()
  call tremula_open(session, 'producer', MPI_COMM_WORLD)
  call layout%block(shape=[1000, 800], grid=[session%size(), 1])
  call layout%local(session%rank(), extents)  ! my rows and columns
  allocate (matrix(extents(1), extents(2)))
  first = layout%global_index(session%rank(), 1, 1_int64)
  call out%open(session, 'matrix')
  call out%field('value', tremula_f64, layout, field)
  do step = 0, 9
    do j = 1, 800
      matrix(:, j) = 1e6_real64*step + [(800*(first + row - 2) + j - 1, row=1, extents(1))]
    end do
    call out%begin_step()
    call out%put(field, matrix)
    call out%end_step()
  end do
  call out%close()
  call session%close()
  call MPI_Finalize()
end program
