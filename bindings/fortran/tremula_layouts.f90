! SPDX-License-Identifier: Apache-2.0
! How a global array is distributed over the ranks of a group. Dimensions, indices and element numbers count from 1,
! ranks from 0 as in MPI. In layouts made by block, dimension 1 is the fastest in memory, as in any Fortran array, so
! that two Fortran jobs exchange arrays without transposing them; see also parse and boxes.
module tremula_layouts
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64
  use tremula_c
  use tremula_errors
  implicit none
  private
  public :: tremula_layout

  integer(c_int), parameter, public :: &
    tremula_i8 = 1, tremula_i16 = 2, tremula_i32 = 3, tremula_i64 = 4, tremula_u8 = 5, tremula_u16 = 6, tremula_u32 = 7, &
    tremula_u64 = 8, tremula_f32 = 9, tremula_f64 = 10, tremula_c64 = 11, tremula_c128 = 12, tremula_f16 = 13, &
    tremula_bf16 = 14, tremula_bool = 15
  ! Options of a layout whose ranks list what they own: some elements may be on no rank (tremula_partial), or on several
  ! ranks (tremula_copies). Their sum sets both.
  integer(c_int), parameter, public :: tremula_partial = 1, tremula_copies = 2
  !> Stands in a list for a place of the buffer that has no element.
  integer(int64), parameter, public :: tremula_no_element = -1

  type :: tremula_layout
    type(c_ptr) :: handle = c_null_ptr  ! the handle of the C interface
  contains
    procedure :: parse, block, points, segments, boxes, free
    procedure :: text, dimensions, shape => global_shape, local, global_index
    procedure, private :: copy
    generic :: assignment(=) => copy
    final :: finalise
  end type

contains

  !> Sets the layout from its text form, e.g. "shape=1000x800 grid=2x2 block=32x32 store=column"; the manual explains
  !> it. Without "store=" the last dimension is the fastest, as in C: a Fortran array needs store=column.
  subroutine parse(self, text, ierr)
    class(tremula_layout), intent(inout) :: self
    character(*), intent(in) :: text
    integer, intent(out), optional :: ierr
    call self%free()
    call report(tremula_layout_parse(terminated(text), self%handle), ierr)
  end subroutine

  !> Sets the layout to blocks on a grid of ranks, stored as Fortran stores arrays.
  !> @param shape  global extents
  !> @param grid   ranks along each dimension, the last one varying fastest; their product is the size of the group
  !> @param block_shape  elements of a block; blocks go to the ranks in turn. By default, parts are as equal as possible
  subroutine block(self, shape, grid, block_shape, ierr)
    class(tremula_layout), intent(inout) :: self
    integer, intent(in) :: shape(:), grid(:)
    integer, intent(in), optional :: block_shape(:)
    integer, intent(out), optional :: ierr
    character(:), allocatable :: text
    text = 'shape='//by(int(shape, int64))//' grid='//by(int(grid, int64))
    if (present(block_shape)) text = text//' block='//by(int(block_shape, int64))
    call self%parse(text//' store=column', ierr)
  end subroutine

  !> Sets the layout of an array for which each rank lists its own elements.
  !> @param shape    global extents
  !> @param ranks    size of the group
  !> @param numbers  numbers of this rank's elements in the order of its buffer, counted from 1 with dimension 1
  !>                 fastest, or tremula_no_element for a place without an element (only on ranks that receive the
  !>                 array, which may also list an element several times). Each rank passes its own
  !> @param options  tremula_partial, tremula_copies or their sum
  subroutine points(self, shape, ranks, numbers, options, ierr)
    class(tremula_layout), intent(inout) :: self
    integer, intent(in) :: shape(:), ranks
    integer(int64), intent(in) :: numbers(:)
    integer(c_int), intent(in), optional :: options
    integer, intent(out), optional :: ierr
    integer(c_int64_t), target :: extents(size(shape)), listed(max(size(numbers), 1))
    integer :: i
    extents = shape
    listed = tremula_no_element
    do i = 1, size(numbers)
      if (numbers(i) == tremula_no_element) cycle
      if (numbers(i) < 1 .or. numbers(i) > product(extents)) then
        call refuse('points: expected element numbers from 1 to '//decimal(product(extents))// &
          ', or tremula_no_element for a place without an element; found '//decimal(numbers(i)), ierr)
        return
      end if
      listed(i) = row_major(numbers(i), extents)
    end do
    call self%free()
    call report(tremula_layout_of_points(size(shape), c_loc(extents), ranks, flags(options), size(numbers, kind=c_int64_t), &
      c_loc(listed), self%handle), ierr)
  end subroutine

  !> Like points, but with segments of a one-dimensional array: lengths(i) elements beginning with number begins(i), or
  !> as many places without an element if begins(i) is tremula_no_element.
  subroutine segments(self, extent, ranks, begins, lengths, options, ierr)
    class(tremula_layout), intent(inout) :: self
    integer(int64), intent(in) :: extent
    integer, intent(in) :: ranks
    integer(int64), intent(in) :: begins(:), lengths(:)
    integer(c_int), intent(in), optional :: options
    integer, intent(out), optional :: ierr
    integer(c_int64_t), target :: extents(1), from(max(size(begins), 1)), elements(max(size(begins), 1))
    if (size(lengths) /= size(begins)) then
      call refuse('segments: expected as many lengths as begins; found '//decimal(size(lengths, kind=int64))//' and '// &
        decimal(size(begins, kind=int64)), ierr)
      return
    end if
    if (any(begins < 1 .and. begins /= tremula_no_element)) then
      call refuse('segments: expected element numbers from 1 to '//decimal(extent)// &
        ', or tremula_no_element for places without an element; found '// &
        decimal(minval(begins, mask=begins /= tremula_no_element)), ierr)
      return
    end if
    extents = extent
    from(:size(begins)) = merge(begins, begins - 1, begins == tremula_no_element)
    elements(:size(begins)) = lengths
    call self%free()
    call report(tremula_layout_of_segments(1, c_loc(extents), ranks, flags(options), size(begins, kind=c_int64_t), c_loc(from), &
      c_loc(elements), self%handle), ierr)
  end subroutine

  !> Like points, but with boxes, stored one after the other in the buffer, the last dimension fastest in each.
  !> @param origins  index of the first element of each box, counted from 1. Shape: (dimension, box)
  !> @param extents  extents of each box. Shape: (dimension, box)
  subroutine boxes(self, shape, ranks, origins, extents, options, ierr)
    class(tremula_layout), intent(inout) :: self
    integer, intent(in) :: shape(:), ranks, origins(:, :), extents(:, :)
    integer(c_int), intent(in), optional :: options
    integer, intent(out), optional :: ierr
    integer(c_int64_t), target :: whole(size(shape)), from(size(shape), max(size(origins, 2), 1)), &
      elements(size(shape), max(size(origins, 2), 1))
    if (size(origins, 1) /= size(shape) .or. any(ubound(origins) /= ubound(extents))) then
      call refuse('boxes: expected origins and extents of shape (dimension, box); found other shapes', ierr)
      return
    end if
    whole = shape
    from(:, :size(origins, 2)) = origins - 1
    elements(:, :size(origins, 2)) = extents
    call self%free()
    call report(tremula_layout_of_boxes(size(shape), c_loc(whole), ranks, flags(options), size(origins, 2, kind=c_int64_t), &
      c_loc(from), c_loc(elements), self%handle), ierr)
  end subroutine

  subroutine free(self)
    class(tremula_layout), intent(inout) :: self
    call tremula_layout_free(self%handle)
    self%handle = c_null_ptr
  end subroutine

  !> Returns the shortest text that parses to the same layout.
  function text(self)
    class(tremula_layout), intent(in) :: self
    character(:), allocatable :: text
    text = text_of(tremula_layout_text(self%handle))
  end function

  integer function dimensions(self)
    class(tremula_layout), intent(in) :: self
    dimensions = tremula_layout_dimensions(self%handle)
  end function

  !> Returns the global extents.
  function global_shape(self) result(extents)
    class(tremula_layout), intent(in) :: self
    integer(int64), allocatable, target :: extents(:)
    allocate (extents(max(self%dimensions(), 1)))
    call report(tremula_layout_shape(self%handle, c_loc(extents)))
  end function

  !> Describes the part of rank `rank`.
  !> @param extents    owned elements along each dimension. extents and strides need room for one number per dimension
  !>                   of the layout; further numbers are set to 0
  !> @param strides    distance in elements between neighbours along each dimension
  !> @param first      position of the first owned element in the buffer, counted from 1
  !> @param allocated  elements that the buffer must have
  subroutine local(self, rank, extents, strides, first, allocated, ierr)
    class(tremula_layout), intent(in) :: self
    integer, intent(in) :: rank
    integer(int64), intent(out), optional :: extents(:), strides(:), first, allocated
    integer, intent(out), optional :: ierr
    integer(c_int64_t), target :: own_extents(tremula_max_dimensions), own_strides(tremula_max_dimensions)
    integer(c_int64_t) :: own_first, own_allocated
    integer(c_int) :: status
    if (present(extents)) then
      if (.not. has_room('extents', size(extents))) return
    end if
    if (present(strides)) then
      if (.not. has_room('strides', size(strides))) return
    end if
    own_extents = 0
    own_strides = 0
    status = tremula_layout_local(self%handle, rank, c_loc(own_extents), c_loc(own_strides), own_first, own_allocated)
    if (status >= 0) then
      if (present(extents)) call fill(extents, own_extents)
      if (present(strides)) call fill(strides, own_strides)
      if (present(first)) first = own_first + 1
      if (present(allocated)) allocated = own_allocated
    end if
    call report(status, ierr)

  contains

    logical function has_room(what, length)
      character(*), intent(in) :: what
      integer, intent(in) :: length
      has_room = length >= self%dimensions()
      if (.not. has_room) call refuse('local: expected '//what//' with room for '//decimal(self%dimensions())// &
        ' numbers, one for each dimension of the layout; found room for '//decimal(length), ierr)
    end function

    subroutine fill(numbers, own)
      integer(int64), intent(out) :: numbers(:)
      integer(c_int64_t), intent(in) :: own(:)
      numbers = 0
      numbers(:self%dimensions()) = own(:self%dimensions())
    end subroutine
  end subroutine

  !> Returns the global index along a dimension of the element that `rank` stores at local index `local`. All
  !> numbers except the rank count from 1.
  integer(int64) function global_index(self, rank, dimension, local, ierr)
    class(tremula_layout), intent(in) :: self
    integer, intent(in) :: rank, dimension
    integer(int64), intent(in) :: local
    integer, intent(out), optional :: ierr
    integer(c_int64_t) :: found
    found = -1
    call report(tremula_layout_global_index(self%handle, rank, dimension - 1, local - 1, found), ierr)
    global_index = found + 1
  end function

  impure elemental subroutine copy(self, other)
    class(tremula_layout), intent(inout) :: self
    class(tremula_layout), intent(in) :: other
    if (c_associated(self%handle, other%handle)) return
    call refuse_copy('layout')
  end subroutine

  impure elemental subroutine finalise(self)
    type(tremula_layout), intent(inout) :: self
    call tremula_layout_free(self%handle)
    self%handle = c_null_ptr
  end subroutine

  pure integer(c_int) function flags(options)
    integer(c_int), intent(in), optional :: options
    flags = 0
    if (present(options)) flags = options
  end function

  !> Converts an element number that is counted from 1 with dimension 1 fastest to one that is counted from 0 with the
  !> last dimension fastest.
  pure integer(int64) function row_major(number, extents)
    integer(int64), intent(in) :: number
    integer(c_int64_t), intent(in) :: extents(:)
    integer(int64) :: left, index(size(extents))
    integer :: d
    left = number - 1
    do d = 1, size(extents)
      index(d) = mod(left, extents(d))
      left = left/extents(d)
    end do
    row_major = 0
    do d = 1, size(extents)
      row_major = row_major*extents(d) + index(d)
    end do
  end function

  !> Joins numbers with x, e.g. "1000x800".
  function by(numbers)
    integer(int64), intent(in) :: numbers(:)
    character(:), allocatable :: by
    integer :: i
    by = ''
    do i = 1, size(numbers)
      if (i > 1) by = by//'x'
      by = by//decimal(numbers(i))
    end do
  end function

end module
