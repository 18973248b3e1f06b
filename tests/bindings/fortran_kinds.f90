! SPDX-License-Identifier: Apache-2.0
! fortran_kinds produce|consume: moves every kind of element, and arrays of 0 to 7 dimensions, from 2 ranks to 3. The
! last dimension is distributed. Element k of a global array, in Fortran's order, is (k + step) modulo 120; a logical is
! true if that number is odd.
program fortran_kinds
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64
  use tremula
  implicit none

  integer, parameter :: steps = 3, kinds = 10
  integer(c_int), parameter :: types(kinds) = [tremula_i8, tremula_i16, tremula_i32, tremula_i64, tremula_f32, tremula_c64, &
    tremula_c128, tremula_bool, tremula_u16, tremula_f64]
  integer, parameter :: ranks_of(kinds) = [1, 2, 3, 4, 5, 6, 7, 2, 1, 0]  ! numbers of dimensions; 0: a scalar
  character(10) :: role
  type(tremula_session) :: session
  type(tremula_layout) :: layouts(kinds)
  type(tremula_out_stream) :: out
  type(tremula_in_stream) :: in
  type(tremula_field) :: fields(kinds)
  integer(int64) :: extents(7)
  integer :: step, k, d
  integer(c_int8_t), allocatable :: a1(:)
  integer(c_int16_t), allocatable :: a2(:, :), a9(:)
  integer(c_int32_t), allocatable :: a3(:, :, :)
  integer(c_int64_t), allocatable :: a4(:, :, :, :)
  real(c_float), allocatable :: a5(:, :, :, :, :)
  complex(c_float_complex), allocatable :: a6(:, :, :, :, :, :)
  complex(c_double_complex), allocatable :: a7(:, :, :, :, :, :, :)
  logical(c_bool), allocatable :: a8(:, :)
  real(c_double) :: a10

  call get_command_argument(1, role)
  call session%open(role)
  do k = 1, kinds
    d = max(ranks_of(k), 1)
    if (k == kinds) then  ! one element, on rank 0 of each group
      call layouts(k)%parse('shape=1 grid=1 members=0')
    else
      call layouts(k)%block([(2, step=1, d - 1), 6], [(1, step=1, d - 1), session%size()])
    end if
  end do
  if (role == 'produce') then
    call out%open(session, 'kinds')
    do k = 1, kinds
      call out%field(name_of(k), types(k), layouts(k), fields(k))
    end do
    call out%attribute('padded', 's       ')
    call out%attribute('none', [real(c_double) ::])
    call out%attribute('two', [3_int64, -4_int64])
    do step = 0, steps - 1
      call fill()
      call out%begin_step()
      call out%step_attribute('cells', 2_int64**40 + step)
      call out%put(fields(1), a1)
      call out%put(fields(2), a2)
      call out%put(fields(3), a3)
      call out%put(fields(4), a4)
      call out%put(fields(5), a5)
      call out%put(fields(6), a6)
      call out%put(fields(7), a7)
      call out%put(fields(8), a8)
      call out%put(fields(9), a9)
      if (session%rank() == 0) then
        call out%put(fields(10), a10)
      else
        call out%put_address(fields(10), c_null_ptr, 0_c_size_t)
      end if
      call out%end_step()
    end do
    call out%close()
  else
    call in%open(session, 'kinds')
    do k = 1, kinds
      call in%field(name_of(k), types(k), layouts(k), fields(k))
    end do
    step = 0
    do while (in%next_step())
      call consume()
      call compare_attributes()
      call in%end_step()
      step = step + 1
    end do
    call in%close()
    if (step /= steps) error stop 'found a wrong number of steps'
  end if
  call session%close()

contains

  character(2) function name_of(k)
    integer, intent(in) :: k
    write (name_of, '(a, i0)') 'f', mod(k, 10)
  end function

  !> Returns the values of this rank's elements.
  function values(k)
    integer, intent(in) :: k
    integer, allocatable :: values(:)
    integer(int64) :: column, number
    integer :: i, rows, columns
    call layouts(k)%local(session%rank(), extents)
    d = max(ranks_of(k), 1)
    rows = int(product(extents(:d - 1)))
    columns = int(extents(d))
    allocate (values(rows*columns))
    do i = 0, rows*columns - 1
      column = layouts(k)%global_index(session%rank(), d, i/rows + 1_int64) - 1
      number = column*rows + mod(i, rows)
      values(i + 1) = int(mod(number + step, 120_int64))
    end do
  end function

  function extent(k)
    integer, intent(in) :: k
    integer :: extent(7)
    call layouts(k)%local(session%rank(), extents)
    extent = int(extents)
  end function

  subroutine compare_attributes()
    character(:), allocatable :: text
    integer(int64), allocatable :: integers(:)
    real(c_double), allocatable :: reals(:)
    real(c_double) :: real_value
    integer(int64) :: integer_value
    integer :: ierr
    call in%step_attribute('cells', integer_value)
    if (integer_value /= 2_int64**40 + step) error stop 'found a wrong attribute of the step'
    call in%attribute('padded', text)
    if (len(text) /= 1 .or. text /= 's') error stop 'expected a text without trailing blanks'
    call in%attribute('none', reals)
    if (size(reals) /= 0) error stop 'expected no value'
    call in%attribute('none', real_value, ierr=ierr)
    if (ierr /= tremula_invalid_argument) error stop 'expected an error for one value of an attribute without any'
    call in%attribute('two', integers)
    if (size(integers) /= 2 .or. any(integers /= [3, -4])) error stop 'expected two values'
    call in%attribute('two', integer_value, ierr=ierr)
    if (ierr /= tremula_invalid_argument) error stop 'expected an error for one value of an attribute with two'
  end subroutine

  subroutine fill()
    integer :: e(7, kinds), n
    do n = 1, kinds
      e(:, n) = extent(n)
    end do
    a1 = int(values(1), c_int8_t)
    a2 = reshape(int(values(2), c_int16_t), e(:2, 2))
    a3 = reshape(values(3), e(:3, 3))
    a4 = reshape(int(values(4), c_int64_t), e(:4, 4))
    a5 = reshape(real(values(5), c_float), e(:5, 5))
    a6 = reshape(cmplx(values(6), -values(6), c_float_complex), e(:6, 6))
    a7 = reshape(cmplx(values(7), -values(7), c_double_complex), e(:7, 7))
    a8 = reshape(logical(mod(values(8), 2) == 1, c_bool), e(:2, 8))
    a9 = int(values(9), c_int16_t)
    a10 = 10*step
  end subroutine

  subroutine consume()
    integer(c_int8_t), allocatable :: b1(:)
    integer(c_int16_t), allocatable :: b2(:, :), b9(:)
    integer(c_int32_t), allocatable :: b3(:, :, :)
    integer(c_int64_t), allocatable :: b4(:, :, :, :)
    real(c_float), allocatable :: b5(:, :, :, :, :)
    complex(c_float_complex), allocatable :: b6(:, :, :, :, :, :)
    complex(c_double_complex), allocatable :: b7(:, :, :, :, :, :, :)
    logical(c_bool), allocatable :: b8(:, :)
    call fill()
    allocate (b1, source=a1)
    allocate (b2, source=a2)
    allocate (b3, source=a3)
    allocate (b4, source=a4)
    allocate (b5, source=a5)
    allocate (b6, source=a6)
    allocate (b7, source=a7)
    allocate (b8, source=a8)
    allocate (b9, source=a9)
    a1 = -1
    a2 = -1
    a3 = -1
    a4 = -1
    a5 = -1
    a6 = -1
    a7 = -1
    a8 = .not. a8
    a9 = -1
    call in%get(fields(1), a1)
    call in%get(fields(2), a2)
    call in%get(fields(3), a3)
    call in%get(fields(4), a4)
    call in%get(fields(5), a5)
    call in%get(fields(6), a6)
    call in%get(fields(7), a7)
    call in%get(fields(8), a8)
    call in%get(fields(9), a9)
    call expect(all(a1 == b1) .and. all(a2 == b2) .and. all(a3 == b3) .and. all(a4 == b4), 'integers')
    call expect(.not. any(abs(a5 - b5) > 0) .and. .not. any(abs(a6 - b6) > 0) .and. .not. any(abs(a7 - b7) > 0), 'floats')
    call expect(all(a8 .eqv. b8) .and. all(a9 == b9), 'logicals and unsigned')
    if (session%rank() == 0) then
      a10 = -1
      call in%get(fields(10), a10)
      call expect(.not. abs(a10 - 10*step) > 0, 'a scalar')
    else
      call in%get_address(fields(10), c_null_ptr, 0_c_size_t)
    end if
  end subroutine

  subroutine expect(is_so, what)
    logical, intent(in) :: is_so
    character(*), intent(in) :: what
    if (is_so) return
    print '(a, i0, 2a)', 'step ', step, ': found wrong ', what
    error stop 1
  end subroutine

end program
