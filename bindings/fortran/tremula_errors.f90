! SPDX-License-Identifier: Apache-2.0
! Error handling for all calls, and the conversion of texts to and from C.
module tremula_errors
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int64
  use tremula_c, only: tremula_last_error, tremula_c_version
  implicit none
  private
  public :: tremula_error_text, tremula_version, report, refuse, refuse_copy, may_open, text_of, terminated, decimal

  ! Values of ierr; only negative ones are errors.
  integer, parameter, public :: tremula_ok = 0, tremula_end_of_stream = 1, tremula_not_ready = 2, &
    tremula_up_to_date = 3, tremula_epoch_changed = 4, &
    tremula_invalid_argument = -1, tremula_timed_out = -2, tremula_transport = -3, tremula_protocol = -4, &
    tremula_peer_lost = -5, tremula_no_server = -6, tremula_refused = -7, tremula_mismatch = -8, &
    tremula_unsupported = -9, tremula_cancelled = -10, tremula_deadlock = -11, tremula_interrupted = -12, &
    tremula_internal = -99

  ! Text of the last error found by these modules; the library keeps the texts of its own errors.
  character(:), allocatable :: own_text
  logical :: is_own = .false.

  interface decimal
    module procedure decimal_of_long, decimal_of_integer
  end interface

contains

  !> Returns the text of the last error: what was expected, what was found, what to do.
  function tremula_error_text() result(text)
    character(:), allocatable :: text
    if (is_own) then
      text = own_text
    else
      text = text_of(tremula_last_error())
    end if
  end function

  !> Returns the version of the library, e.g. "0.2.0".
  function tremula_version() result(text)
    character(:), allocatable :: text
    text = text_of(tremula_c_version())
  end function

  !> Returns the status to the caller in ierr; without ierr, an error prints its text and ends the program.
  subroutine report(status, ierr)
    integer(c_int), intent(in) :: status
    integer, intent(out), optional :: ierr
    if (status < 0) is_own = .false.
    call give(int(status), ierr)
  end subroutine

  !> Reports an error found by these modules, as report does for an error of the library.
  subroutine refuse(text, ierr)
    character(*), intent(in) :: text
    integer, intent(out), optional :: ierr
    own_text = text
    is_own = .true.
    call give(tremula_invalid_argument, ierr)
  end subroutine

  !> Refuses the assignment of a handle, which has one owner.
  subroutine refuse_copy(what)
    character(*), intent(in) :: what
    call refuse(what//': expected one variable as its owner; found an assignment to another: pass it as an argument, or '// &
      'use a pointer to it')
  end subroutine

  !> Returns whether a handle may be opened; if it is open, refuses, because the open one would be lost.
  logical function may_open(handle, what, ierr)
    type(c_ptr), intent(in) :: handle
    character(*), intent(in) :: what
    integer, intent(out), optional :: ierr
    may_open = .not. c_associated(handle)
    if (.not. may_open) call refuse(what//': expected one that is not open; found an open one: close it first; a '// &
      'stream whose close has failed may also be given up (give_up)', ierr)
  end function

  subroutine give(status, ierr)
    integer, intent(in) :: status
    integer, intent(out), optional :: ierr
    if (present(ierr)) then
      ierr = status
    else if (status < 0) then
      write (error_unit, '(a)') 'tremula: '//tremula_error_text()
      flush (error_unit)
      error stop 1
    end if
  end subroutine

  !> Returns `text` as a C string: without trailing blanks and with a zero byte at the end.
  pure function terminated(text) result(ended)
    character(*), intent(in) :: text
    character(:), allocatable :: ended
    ended = trim(text)//c_null_char
  end function

  function decimal_of_long(number) result(text)
    integer(int64), intent(in) :: number
    character(:), allocatable :: text
    character(20) :: digits
    write (digits, '(i0)') number
    text = trim(digits)
  end function

  function decimal_of_integer(number) result(text)
    integer, intent(in) :: number
    character(:), allocatable :: text
    text = decimal_of_long(int(number, int64))
  end function

  !> Returns a C string as text; "" for NULL.
  function text_of(pointer) result(text)
    type(c_ptr), intent(in) :: pointer
    character(:), allocatable :: text
    character(kind=c_char), pointer :: characters(:)
    integer :: i, length
    interface
      integer(c_size_t) function strlen(text) bind(c)
        import
        type(c_ptr), value :: text
      end function
    end interface
    if (.not. c_associated(pointer)) then
      text = ''
      return
    end if
    length = int(strlen(pointer))
    call c_f_pointer(pointer, characters, [length])
    allocate (character(length) :: text)
    do i = 1, length
      text(i:i) = characters(i)
    end do
  end function

end module
