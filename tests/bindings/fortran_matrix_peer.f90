! SPDX-License-Identifier: Apache-2.0
! matrix_peer produce|consume LAYOUT STEPS: the job of tests/python/matrix_peer.cpp in Fortran.
program matrix_peer
  use, intrinsic :: iso_c_binding, only: c_double
  use, intrinsic :: iso_fortran_env, only: int64
  use tremula
  implicit none

  character(200) :: role, layout_text, steps_text
  type(tremula_session) :: session
  type(tremula_layout) :: layout
  integer :: steps
  integer(int64) :: extents(2), strides(2), shape_(2), first, allocated
  real(c_double), allocatable :: data(:)

  if (command_argument_count() /= 3) error stop 'expected produce or consume, a layout and a number of steps'
  call get_command_argument(1, role)
  call get_command_argument(2, layout_text)
  call get_command_argument(3, steps_text)
  read (steps_text, *) steps
  call session%open(role)
  call layout%parse(layout_text)
  shape_ = layout%shape()
  call layout%local(session%rank(), extents, strides, first, allocated)
  allocate (data(allocated))
  data = 0
  if (role == 'produce') then
    call produce()
  else
    call consume()
  end if
  call layout%free()
  call session%close()

contains

  integer(int64) function place(i, j)
    integer(int64), intent(in) :: i, j
    place = first + (i - 1)*strides(1) + (j - 1)*strides(2)
  end function

  !> Returns 1e6*step plus the number of the element in row-major order, counted from 0.
  real(c_double) function value(step, i, j)
    integer, intent(in) :: step
    integer(int64), intent(in) :: i, j
    integer(int64) :: row, column
    row = layout%global_index(session%rank(), 1, i)
    column = layout%global_index(session%rank(), 2, j)
    value = 1d6*step + real((row - 1)*shape_(2) + column - 1, c_double)
  end function

  subroutine produce()
    type(tremula_out_stream) :: out
    type(tremula_field) :: field
    integer :: step
    integer(int64) :: i, j
    call out%open(session, 'matrix')
    call out%field('value', tremula_f64, layout, field)
    call out%attribute('time_unit', 's')
    call out%attribute('units', 'K', field)
    do step = 0, steps - 1
      do j = 1, extents(2)
        do i = 1, extents(1)
          data(place(i, j)) = value(step, i, j)
        end do
      end do
      call out%begin_step()
      call out%time(3600_int64*step)
      call out%step_attribute('iterations', [integer(int64) :: step, 2])
      call out%put(field, data)
      call out%end_step()
    end do
    call out%close()
  end subroutine

  subroutine consume()
    type(tremula_in_stream) :: in
    type(tremula_field) :: field
    integer :: step
    integer(int64) :: i, j
    integer(int64), allocatable :: iterations(:)
    character(:), allocatable :: units
    call in%open(session, 'matrix')
    call in%field('value', tremula_f64, layout, field)
    step = 0
    do while (in%next_step())
      call in%step_attribute('iterations', iterations)
      call in%attribute('units', units, field)
      if (in%step() /= step .or. in%time() /= 3600*step .or. any(iterations /= [step, 2]) .or. units /= 'K') &
        error stop 'found a wrong number, time or attribute of the step'
      call in%get(field, data)
      call in%end_step()
      do j = 1, extents(2)
        do i = 1, extents(1)
          if (abs(data(place(i, j)) - value(step, i, j)) > 0) error stop 'found a wrong element'
        end do
      end do
      step = step + 1
    end do
    call in%close()
    if (step /= steps) error stop 'found a wrong number of steps'
  end subroutine

end program
