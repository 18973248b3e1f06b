! SPDX-License-Identifier: Apache-2.0
! One group puts a field in column-major order, and another gets it regridded by weights. Also checks that
! refusals have a text.
program fortran_regrid
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64
  use tremula
  use tremula_regridding
  implicit none
  type(tremula_session) :: session
  type(tremula_layout) :: layout
  type(tremula_weights) :: weights, conserving
  type(tremula_in_stream) :: in
  type(tremula_field) :: field, conserved, undeclared
  type(tremula_out_stream) :: out
  character(512) :: role, path
  real(c_double), allocatable, target :: data(:, :)
  real(c_double) :: x, y
  integer(int64) :: rows, links, points, extents(2), allocated
  integer :: ierr, i, j, steps

  call get_command_argument(1, role)
  call get_command_argument(2, path)
  call session%open(role)
  if (role == 'produce') then
    call produce()
    stop
  end if
  call layout%block([18, 10], [session%size(), 1])
  call weights%open(session, '/nowhere.nc', layout, ierr=ierr)
  if (ierr /= tremula_invalid_argument .or. index(tremula_error_text(), 'expected a NetCDF file') == 0) error stop 'no text'
  call weights%open(session, path, layout, '{order: c}', ierr)
  if (ierr /= tremula_invalid_argument) error stop 'an invalid order was accepted'
  call weights%open(session, path, layout, '{fill: -1}')
  call weights%count(rows, links, points)
  if (links /= 4*rows .or. points < 1 .or. points > 24*16) error stop 'count'
  call layout%local(session%rank(), extents=extents, allocated=allocated)
  allocate (data(extents(1), extents(2)))
  if (size(data) /= allocated) error stop 'local buffer'
  call in%open(session, 'linear')
  call weights%field(in, 'x', field)
  call conserving%open(session, path, layout, '{conserve: global}')
  call conserving%field(in, 'y', conserved)
  steps = 0
  do while (in%next_step())
    call weights%get(in, field, data(1:size(data, 1):2, :), ierr)
    if (ierr /= tremula_invalid_argument) error stop 'a section with gaps was accepted'
    undeclared = field
    call weights%field(in, 'late', undeclared, ierr)
    if (ierr /= tremula_invalid_argument) error stop 'a field was declared in a step'
    call weights%get(in, undeclared, data(1:size(data, 1):2, :), ierr)
    if (ierr /= tremula_invalid_argument .or. index(tremula_error_text(), 'expected a field that a stream') == 0) &
      error stop 'a field that is not declared was accepted'
    if (session%rank() == 0) then  ! rank 0 takes part in the integrals although its array is refused
      call conserving%get(in, conserved, data(1:size(data, 1):2, :), ierr)
    else
      call conserving%get(in, conserved, data, ierr)
    end if
    if (ierr /= merge(tremula_invalid_argument, tremula_peer_lost, session%rank() == 0)) &
      error stop 'expected an error on each rank'
    data = -7
    call weights%get(in, field, data)
    do j = 1, size(data, 2)
      do i = 1, size(data, 1)
        ! in the file, which was made for this test, element (i, j) of the destination is at the centre of source
        ! elements (i, j), (i + 1, j), (i, j + 1), (i + 1, j + 1)
        x = real(layout%global_index(session%rank(), 1, int(i, int64)), c_double) + 0.5
        y = real(layout%global_index(session%rank(), 2, int(j, int64)), c_double) + 0.5
        if (abs(data(i, j) - (100*y + x + steps)) > 1e-12*data(i, j)) error stop 'an element is wrong'
      end do
    end do
    call in%end_step()
    steps = steps + 1
  end do
  if (steps /= 3) error stop 'steps'
  call in%close()
  call weights%free()
  call conserving%free()
  call session%close()
  print '(a)', 'right'

contains

  subroutine produce()
    call layout%block([24, 16], [1, session%size()])
    call layout%local(session%rank(), extents=extents)
    allocate (data(extents(1), extents(2)))
    call out%open(session, 'linear')
    call out%field('x', tremula_f64, layout, field)
    call out%field('y', tremula_f64, layout, conserved)
    do steps = 0, 2
      do j = 1, size(data, 2)
        do i = 1, size(data, 1)
          data(i, j) = real(layout%global_index(session%rank(), 1, int(i, int64)), c_double) &
            + 100*real(layout%global_index(session%rank(), 2, int(j, int64)), c_double) + steps
        end do
      end do
      call out%begin_step()
      call out%put(field, data)
      call out%put(conserved, data)
      call out%end_step()
    end do
    call out%close()
    call session%close()
  end subroutine
end program
