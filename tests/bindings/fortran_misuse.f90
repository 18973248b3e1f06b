! SPDX-License-Identifier: Apache-2.0
! fortran_misuse CASE: makes mistakes that programs make. With ierr, the program continues and prints "refused: " and
! the text of each error; the other cases end with an error stop, which prints the text.
program fortran_misuse
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64
  use tremula
  implicit none

  character(20) :: which
  type(tremula_session) :: session, other, sessions(1), others(1)
  type(tremula_layout) :: layout
  type(tremula_out_stream) :: out
  type(tremula_in_stream) :: in
  type(tremula_field) :: field, undeclared
  real(c_double) :: matrix(4, 6), wide(8, 6)
  real(c_float) :: single(4, 6)
  integer(int64) :: index, extents(1)
  type(tremula_change) :: change
  integer :: ierr, status

  call get_command_argument(1, which)
  matrix = 1
  wide = 1
  single = 1
  call session%open('misuse', 0, 1)
  if (which == 'without_ierr') then
    call layout%parse('shape=4x6 grid=none')
  else if (which == 'copied') then
    other = session
  else if (which == 'copied_array') then
    call sessions(1)%open('array', 0, 1)
    others = sessions
  else if (which == 'copied_to_array') then
    others = session
  end if

  call session%open('again', 0, 1, ierr=ierr)
  call expect_refusal('an open session')
  call layout%parse('shape=4x6', ierr)
  call expect_refusal('a layout without grid')
  call layout%block([4, 6], [1, 1])
  index = layout%global_index(0, 3, 1_int64, ierr)
  call expect_refusal('a dimension too many')
  index = layout%global_index(0, 1, 0_int64, ierr)
  call expect_refusal('an index counted from 0')
  call layout%points([4, 6], 1, [0_int64], ierr=ierr)
  call expect_refusal('a number counted from 0')
  call layout%local(0, extents=extents, ierr=ierr)
  call expect_refusal('extents of one dimension')
  call out%begin_step(ierr=ierr)
  call expect_refusal('a stream that is not open')

  call leave_open()  ! if it left a stream open, session%close would be refused
  call layout%block([4, 6], [1, 1])
  call out%open(session, 'matrix', '{queue_deep: 1}', ierr)
  call expect_refusal('an unknown option')
  call out%open(session, 'matrix')
  call out%open(session, 'again', ierr=ierr)
  call expect_refusal('an open stream')
  call out%field('value', tremula_f64, layout, field, origin=[1_int64, 1_int64], ierr=ierr)
  call expect_refusal('an origin without a whole')
  call out%field('value', tremula_f64, layout, field, origin=[1_int64], whole=[8_int64], ierr=ierr)
  call expect_refusal('an origin of one dimension')
  call out%field('value', tremula_f64, layout, field)
  call out%attribute('unit', 'K', undeclared, ierr)
  call expect_refusal('an attribute of an undeclared field')
  call in%open(session, 'never')
  call in%open(session, 'again', ierr=ierr)
  call expect_refusal('an open stream of a consumer')
  change%extents = [4_int64]
  call in%field('value', tremula_f64, layout, undeclared, change, ierr)
  call expect_refusal('a change of one dimension')
  call in%field('value', tremula_f64, layout, undeclared)
  call in%begin_step(status, 0d0)
  if (status /= tremula_not_ready) error stop 'expected that no step is ready'
  call out%put(field, single, ierr)
  call expect_refusal('another kind')
  call out%put(field, wide(1:8:2, :), ierr)
  call expect_refusal('a section with gaps')
  call out%put(field, matrix(:, 1:3), ierr)
  call expect_refusal('a part of the buffer')
  undeclared%number = -1
  call out%put(undeclared, matrix, ierr)
  call expect_refusal('a field of no stream')
  call in%give_up()
  call out%give_up()
  call session%close()
  print '(a)', 'closed'

contains

  !> Opens streams in arrays, which are freed when they go out of scope.
  subroutine leave_open()
    type(tremula_out_stream), allocatable :: outs(:)
    type(tremula_in_stream) :: ins(2)
    integer :: i
    allocate (outs(2))
    do i = 1, 2
      call outs(i)%open(session, 'left'//achar(iachar('0') + i))
      call ins(i)%open(session, 'taken'//achar(iachar('0') + i))
    end do
  end subroutine

  subroutine expect_refusal(what)
    character(*), intent(in) :: what
    if (ierr >= 0) then
      print '(2a)', 'expected an error, found none: ', what
      error stop 1
    end if
    print '(4a)', 'refused: ', what, ': ', tremula_error_text()
  end subroutine

end program
