! SPDX-License-Identifier: Apache-2.0
! fortran_producer LAYOUT STEPS MEMORY HAND_OVER: one rank that produces the field "number" of the stream "numbers".
! The element with global number n holds 1000000 * step + n; the time of a step is 3600 * step seconds, and its
! attribute "angle" [step, 0.5]. MEMORY: allocated or ordinary; HAND_OVER: put (with
! queue_depth 0) or put_async. Prints its counters.
program fortran_producer
  use tremula_c
  implicit none

  character(len=200) :: layout_text, steps_text, memory_kind, hand_over
  type(c_ptr) :: session, layout, out, memory
  real(c_double), pointer, contiguous :: part(:, :)
  real(c_double), allocatable, target :: ordinary(:, :)
  integer(c_int64_t), allocatable :: row(:), column(:)
  integer(c_int64_t) :: shape_(2), extents(2), strides(2), first, allocated, request, i, j
  integer(c_size_t) :: bytes
  integer(c_int) :: rank, field
  integer :: step, steps
  logical :: is_async
  type(tremula_statistics) :: statistics
  character(kind=c_char), target :: unit(2) = ['s', c_null_char]
  type(c_ptr), target :: texts(1)
  real(c_double), target :: angle(2)

  call get_command_argument(1, layout_text)
  call get_command_argument(2, steps_text)
  call get_command_argument(3, memory_kind)
  call get_command_argument(4, hand_over)
  read (steps_text, *) steps
  is_async = hand_over == 'put_async'

  call expect_ok(tremula_session_open('fortran'//c_null_char, -1, -1, '{}'//c_null_char, session), 'session')
  rank = tremula_session_rank(session)
  call expect_ok(tremula_layout_parse(trim(layout_text)//c_null_char, layout), 'layout')
  call expect_ok(tremula_layout_shape(layout, shape_), 'shape')
  call expect_ok(tremula_layout_local(layout, rank, extents, strides, first, allocated), 'local')
  if (first /= 0 .or. any(strides /= [1_c_int64_t, extents(1)])) error stop 'expected a part stored as Fortran stores it'
  allocate (row(extents(1)), column(extents(2)))
  do i = 1, extents(1)
    call expect_ok(tremula_layout_global_index(layout, rank, 0_c_int, i - 1, row(i)), 'global_index')
  end do
  do j = 1, extents(2)
    call expect_ok(tremula_layout_global_index(layout, rank, 1_c_int, j - 1, column(j)), 'global_index')
  end do

  bytes = 8 * allocated
  if (memory_kind == 'allocated') then
    call expect_ok(tremula_allocate(bytes, memory), 'allocate')
    call c_f_pointer(memory, part, extents)
  else
    allocate (ordinary(extents(1), extents(2)))
    part => ordinary
  end if

  if (is_async) then
    call expect_ok(tremula_out_open(session, 'numbers'//c_null_char, '{queue_depth: 2}'//c_null_char, out), 'open')
  else
    call expect_ok(tremula_out_open(session, 'numbers'//c_null_char, '{queue_depth: 0}'//c_null_char, out), 'open')
  end if
  call expect_ok(tremula_out_field(out, 'number'//c_null_char, tremula_f64, layout, field), 'field')
  texts(1) = c_loc(unit)
  call expect_ok(tremula_out_attribute(out, tremula_of_stream, 'time_unit'//c_null_char, tremula_text, c_loc(texts), &
    1_c_size_t), 'attribute')
  do step = 0, steps - 1
    do j = 1, extents(2)
      part(:, j) = 1000000d0 * step + real(row * shape_(2) + column(j), c_double)
    end do
    call expect_ok(tremula_out_begin_step(out), 'begin_step')
    call expect_ok(tremula_out_time(out, 3600_c_int64_t * step), 'time')
    angle = [real(step, c_double), 0.5_c_double]
    call expect_ok(tremula_out_attribute(out, tremula_of_step, 'angle'//c_null_char, tremula_real, c_loc(angle), &
      2_c_size_t), 'attribute')
    if (is_async) then
      call expect_ok(tremula_out_put_async(out, field, c_loc(part), bytes, request), 'put_async')
      call expect_ok(tremula_out_end_step(out), 'end_step')
      call expect_ok(tremula_out_wait(out, request), 'wait')
    else
      call expect_ok(tremula_out_put(out, field, c_loc(part), bytes), 'put')
      call expect_ok(tremula_out_end_step(out), 'end_step')
    end if
  end do
  call expect_ok(tremula_out_close(out), 'close')

  statistics%size = c_sizeof(statistics)
  call expect_ok(tremula_out_statistics(out, statistics), 'statistics')
  print '(3(a, i0))', 'steps=', statistics%steps, ' bytes=', statistics%bytes, ' copied_bytes=', statistics%copied_bytes

  call tremula_out_free(out)
  call tremula_layout_free(layout)
  if (memory_kind == 'allocated') call expect_ok(tremula_deallocate(memory), 'deallocate')
  call expect_ok(tremula_session_close(session), 'close the session')
end program
