! SPDX-License-Identifier: Apache-2.0
! fortran_job: one MPI job whose ranks move a matrix from rows to columns and transpose it. Then rank 0 sends the other
! ranks a stream, in sessions over communicators of mpi_f08; last, all ranks open a session over a communicator of mpi.
! Needs at least two ranks.
program fortran_job
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64
  use mpi_f08
  use tremula
  use tremula_mpi
  implicit none

  type(tremula_session) :: session
  type(tremula_layout) :: rows, columns, transposed, across, whole, tiles
  type(MPI_Comm) :: group
  type(tremula_out_stream) :: out
  type(tremula_in_stream) :: in
  type(tremula_field) :: field
  type(tremula_change) :: change
  real(c_double), allocatable :: from(:, :), to(:, :), turned(:, :)
  integer :: rank, ranks, ierr
  logical :: is_producer

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call rows%block([12, 18], [ranks, 1])
  call columns%block([12, 18], [1, ranks], [12, 4])
  call transposed%block([18, 12], [1, ranks])
  call fill(rows, from, .false.)
  call fill(columns, to, .false.)
  to = -1
  call tremula_redistribute(MPI_COMM_WORLD, rows, columns, from, to)
  call compare(columns, to, 1d0, .false.)
  to = 1
  change%alpha = 2
  change%beta = 3
  call tremula_redistribute(MPI_COMM_WORLD%mpi_val, rows, columns, from, to, change)
  call compare(columns, to - 3, 2d0, .false.)
  call fill(transposed, turned, .true.)
  turned = -1
  change%beta = 0
  change%axes = [2, 1]
  call tremula_redistribute(MPI_COMM_WORLD, rows, transposed, from, turned, change)
  call compare(transposed, turned, 2d0, .true.)
  call across%block([18, 12], [ranks, 1])
  call fill(across, turned, .true.)
  if (rank == 0) change%extents = [12_int64]  ! rank 0 takes part although its change is wrong
  call tremula_redistribute(MPI_COMM_WORLD, rows, across, from, turned, change, ierr)
  if (ierr /= merge(tremula_invalid_argument, tremula_mismatch, rank == 0)) error stop 'expected an error on each rank'
  call tremula_redistribute(MPI_COMM_WORLD, rows, columns, from, to)
  call compare(columns, to, 1d0, .false.)

  is_producer = rank == 0
  call MPI_Comm_split(MPI_COMM_WORLD, merge(0, 1, is_producer), rank, group)
  call tremula_open(session, trim(merge('producer', 'consumer', is_producer)), group)
  if (session%rank() /= merge(0, rank - 1, is_producer) .or. session%size() /= merge(1, ranks - 1, is_producer)) &
    error stop 'expected the ranks of the communicator'
  call whole%block([12, 18], [1, 1])
  call tiles%block([12, 18], [1, ranks - 1], [12, 4])
  if (is_producer) then
    call fill(whole, from, .false.)
    call out%open(session, 'matrix')
    call out%field('a', tremula_f64, whole, field)
    call out%begin_step()
    call out%put(field, from)
    call out%end_step()
    call out%close()
  else
    rank = rank - 1  ! the rank in the group
    call fill(tiles, to, .false.)
    to = -1
    call in%open(session, 'matrix')
    call in%field('a', tremula_f64, tiles, field)
    do while (in%next_step())
      call in%get(field, to)
      call in%end_step()
    end do
    call in%close()
    call compare(tiles, to, 1d0, .false.)
  end if
  call session%close()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)

  call tremula_open(session, 'again', MPI_COMM_WORLD%mpi_val, '{timeout: 20}')
  call session%close()
  call MPI_Finalize()
  if (rank == 0) print '(a)', 'right'

contains

  !> Returns element (i, j) of the part of the 12 x 18 matrix, or of its transpose, that `layout` assigns to this rank.
  real(c_double) function value(layout, i, j, is_transposed)
    type(tremula_layout), intent(in) :: layout
    integer, intent(in) :: i, j
    logical, intent(in) :: is_transposed
    integer(int64) :: at(2)
    at = [layout%global_index(rank, 1, int(i, int64)), layout%global_index(rank, 2, int(j, int64))]
    if (is_transposed) at = at([2, 1])
    value = real(at(1) + 12*(at(2) - 1), c_double)
  end function

  subroutine fill(layout, array, is_transposed)
    type(tremula_layout), intent(in) :: layout
    real(c_double), allocatable, intent(out) :: array(:, :)
    logical, intent(in) :: is_transposed
    integer(int64) :: extents(2)
    integer :: i, j
    call layout%local(rank, extents)
    allocate (array(extents(1), extents(2)))
    do j = 1, int(extents(2))
      do i = 1, int(extents(1))
        array(i, j) = value(layout, i, j, is_transposed)
      end do
    end do
  end subroutine

  subroutine compare(layout, array, factor, is_transposed)
    type(tremula_layout), intent(in) :: layout
    real(c_double), intent(in) :: array(:, :), factor
    logical, intent(in) :: is_transposed
    integer :: i, j
    do j = 1, size(array, 2)
      do i = 1, size(array, 1)
        if (abs(array(i, j) - factor*value(layout, i, j, is_transposed)) > 0) then
          print '(a, 3i4, f10.2)', 'wrong element at ', rank, i, j, array(i, j)
          call MPI_Abort(MPI_COMM_WORLD, 1)
        end if
      end do
    end do
  end subroutine

end program
