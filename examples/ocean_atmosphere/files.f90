! SPDX-License-Identifier: Apache-2.0
! Reads and writes arrays in files of 8-byte numbers; each rank accesses its own elements. A results file holds the
! fields of a model day by day, however many ranks wrote it, so two runs that agree produce files that are equal byte
! for byte.
module files
  use, intrinsic :: iso_fortran_env, only: int64
  use models, only: dp
  implicit none
  private
  public :: read_part, write_part, make_file, argument, number_argument

contains

  !> Reads elements `numbers` (counted from 1) of array number `array` (counted from 0); each array has `size` elements.
  subroutine read_part(path, size, array, numbers, values)
    character(*), intent(in) :: path
    integer, intent(in) :: size, array, numbers(:)
    real(dp), intent(out) :: values(:)
    integer :: unit, i
    open (newunit=unit, file=path, access='stream', form='unformatted', status='old', action='read')
    do i = 1, ubound(numbers, 1)
      read (unit, pos=place(size, array, numbers(i))) values(i)
    end do
    close (unit)
  end subroutine

  subroutine write_part(path, size, array, numbers, values)
    character(*), intent(in) :: path
    integer, intent(in) :: size, array, numbers(:)
    real(dp), intent(in) :: values(:)
    integer :: unit, i
    open (newunit=unit, file=path, access='stream', form='unformatted', status='old', action='readwrite')
    do i = 1, ubound(numbers, 1)
      write (unit, pos=place(size, array, numbers(i))) values(i)
    end do
    close (unit)
  end subroutine

  !> Makes a file of zeros, unless the file exists.
  subroutine make_file(path, size, arrays)
    character(*), intent(in) :: path
    integer, intent(in) :: size, arrays
    logical :: is_there
    integer :: unit, i
    inquire (file=path, exist=is_there)
    if (is_there) return
    open (newunit=unit, file=path, access='stream', form='unformatted', status='new', action='write')
    do i = 1, arrays
      write (unit) spread(0.0_dp, 1, size)
    end do
    close (unit)
  end subroutine

  integer(int64) function place(size, array, number)
    integer, intent(in) :: size, array, number
    place = (int(array, int64)*size + number - 1)*8 + 1
  end function

  function argument(number) result(text)
    integer, intent(in) :: number
    character(:), allocatable :: text
    integer :: length
    call get_command_argument(number, length=length)
    allocate (character(length) :: text)
    call get_command_argument(number, text)
  end function

  integer function number_argument(number)
    integer, intent(in) :: number
    character(:), allocatable :: text
    text = argument(number)
    read (text, *) number_argument
  end function

end module
