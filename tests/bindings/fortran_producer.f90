! SPDX-License-Identifier: Apache-2.0
! fortran_producer LAYOUT STEPS MEMORY HAND_OVER: one rank that produces the field "number" of the stream "numbers".
! The element with global number n holds 1000000 * step + n; the time of a step is 3600 * step seconds, and its
! attribute "angle" is [step, 0.5]. MEMORY: allocated or ordinary; HAND_OVER: put (with
! queue_depth 0) or put_async. Prints its counters.
program fortran_producer
  use, intrinsic :: iso_c_binding, only: c_double
  use, intrinsic :: iso_fortran_env, only: int64
  use tremula
  implicit none

  character(len=200) :: layout_text, steps_text, memory_kind, hand_over
  type(tremula_session) :: session
  type(tremula_layout) :: layout
  type(tremula_out_stream) :: out
  type(tremula_field) :: field
  type(tremula_statistics) :: statistics
  real(c_double), pointer, contiguous :: part(:, :)
  real(c_double), allocatable, target :: ordinary(:, :)
  integer(int64), allocatable :: row(:), column(:)
  integer(int64) :: shape_(2), extents(2), strides(2), first, request, i, j
  integer :: step, steps
  logical :: is_async

  call get_command_argument(1, layout_text)
  call get_command_argument(2, steps_text)
  call get_command_argument(3, memory_kind)
  call get_command_argument(4, hand_over)
  read (steps_text, *) steps
  is_async = hand_over == 'put_async'

  call session%open('fortran')
  call layout%parse(layout_text)
  shape_ = layout%shape()
  call layout%local(session%rank(), extents, strides, first)
  if (first /= 1 .or. any(strides /= [1_int64, extents(1)])) error stop 'expected a part stored as Fortran stores it'
  allocate (row(extents(1)), column(extents(2)))
  do i = 1, extents(1)
    row(i) = layout%global_index(session%rank(), 1, i)
  end do
  do j = 1, extents(2)
    column(j) = layout%global_index(session%rank(), 2, j)
  end do

  if (memory_kind == 'allocated') then
    call tremula_allocate(part, extents)
  else
    allocate (ordinary(extents(1), extents(2)))
    part => ordinary
  end if

  call out%open(session, 'numbers', merge('{queue_depth: 2}', '{queue_depth: 0}', is_async))
  call out%field('number', tremula_f64, layout, field)
  call out%attribute('time_unit', 's')
  do step = 0, steps - 1
    do j = 1, extents(2)
      part(:, j) = 1000000d0*step + real((row - 1)*shape_(2) + column(j) - 1, c_double)
    end do
    call out%begin_step()
    call out%time(3600_int64*step)
    call out%step_attribute('angle', [real(step, c_double), 0.5_c_double])
    if (is_async) then
      call out%put_async(field, part, request)
      call out%end_step()
      call out%wait(request)
    else
      call out%put(field, part)
      call out%end_step()
    end if
  end do
  call out%statistics(statistics)
  call out%close()
  print '(3(a, i0))', 'steps=', statistics%steps, ' bytes=', statistics%bytes, ' copied_bytes=', statistics%copied_bytes

  if (memory_kind == 'allocated') call tremula_deallocate(part)
  call layout%free()
  call session%close()
end program
