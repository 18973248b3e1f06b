! SPDX-License-Identifier: Apache-2.0
! language_bench produce|consume BYTES STEPS QUEUE_DEPTH: the Fortran twin of language_bench.cpp.
program language_bench
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use tremula
  implicit none
  type(tremula_session) :: session
  type(tremula_layout) :: layout
  type(tremula_out_stream) :: out
  type(tremula_in_stream) :: in
  type(tremula_field) :: field
  real(c_double), pointer, contiguous :: data(:)
  real(real64), allocatable :: seconds(:)
  character(32) :: role, words(3)
  integer(int64) :: bytes, now, begin, rate
  integer :: steps, queue_depth, step, batch, count, i

  call get_command_argument(1, role)
  do i = 1, 3
    call get_command_argument(i + 1, words(i))
  end do
  read (words(1), *) bytes
  read (words(2), *) steps
  read (words(3), *) queue_depth
  call session%open('fortran '//role, 0, 1)
  call layout%block([int(bytes/8)], [1])
  call tremula_allocate(data, [bytes/8])
  data = 0
  if (role == 'produce') then
    call out%open(session, 'bench', '{queue_depth: '//trim(words(3))//'}')
    call out%field('value', tremula_f64, layout, field)
    do step = 1, steps
      call out%begin_step()
      call out%put(field, data)
      call out%end_step()
    end do
    call out%close()
    stop
  end if
  batch = max(1, steps/40)
  allocate (seconds(steps/batch + 1))
  count = 0
  step = 0
  call system_clock(begin, rate)
  call in%open(session, 'bench')
  call in%field('value', tremula_f64, layout, field)
  do while (in%next_step())
    if (mod(step, batch) == 0) then
      call system_clock(now)
      if (step > 0) then
        count = count + 1
        seconds(count) = real(now - begin, real64)/rate/batch
      end if
      begin = now
    end if
    call in%get(field, data)
    call in%end_step()
    step = step + 1
  end do
  call in%close()
  call sort(seconds(:count))
  print '(3es17.9)', seconds(1), seconds(count/4 + 1), seconds(count/2 + 1)

contains

  subroutine sort(values)
    real(real64), intent(inout) :: values(:)
    real(real64) :: value
    integer :: at, to
    do at = 2, size(values)
      value = values(at)
      to = at
      do while (to > 1)
        if (values(to - 1) <= value) exit
        values(to) = values(to - 1)
        to = to - 1
      end do
      values(to) = value
    end do
  end subroutine
end program
