! SPDX-License-Identifier: Apache-2.0
! What fortran_producer calls of tremula.h, name by name.
module tremula_c
  use, intrinsic :: iso_c_binding
  implicit none

  integer(c_int), parameter :: tremula_f64 = 10
  integer(c_int), parameter :: tremula_real = 2, tremula_text = 3, tremula_of_stream = -1, tremula_of_step = -2

  type, bind(c) :: tremula_statistics
    integer(c_size_t) :: size
    integer(c_int64_t) :: steps, packages, bytes, copied_bytes
    real(c_double) :: plan_seconds, wait_seconds, copy_seconds, wire_seconds
    character(kind=c_char) :: transport(64)
  end type

  interface
    type(c_ptr) function tremula_last_error() bind(c)
      import
    end function
    integer(c_int) function tremula_session_open(group, rank, size, options, session) bind(c)
      import
      character(kind=c_char), intent(in) :: group(*), options(*)
      integer(c_int), value :: rank, size
      type(c_ptr), intent(out) :: session
    end function
    integer(c_int) function tremula_session_close(session) bind(c)
      import
      type(c_ptr), value :: session
    end function
    integer(c_int) function tremula_session_rank(session) bind(c)
      import
      type(c_ptr), value :: session
    end function
    integer(c_int) function tremula_allocate(bytes, memory) bind(c)
      import
      integer(c_size_t), value :: bytes
      type(c_ptr), intent(out) :: memory
    end function
    integer(c_int) function tremula_deallocate(memory) bind(c)
      import
      type(c_ptr), value :: memory
    end function
    integer(c_int) function tremula_layout_parse(text, layout) bind(c)
      import
      character(kind=c_char), intent(in) :: text(*)
      type(c_ptr), intent(out) :: layout
    end function
    subroutine tremula_layout_free(layout) bind(c)
      import
      type(c_ptr), value :: layout
    end subroutine
    integer(c_int) function tremula_layout_shape(layout, extents) bind(c)
      import
      type(c_ptr), value :: layout
      integer(c_int64_t), intent(out) :: extents(*)
    end function
    integer(c_int) function tremula_layout_local(layout, rank, extents, strides, first, allocated) bind(c)
      import
      type(c_ptr), value :: layout
      integer(c_int), value :: rank
      integer(c_int64_t), intent(out) :: extents(*), strides(*), first, allocated
    end function
    integer(c_int) function tremula_layout_global_index(layout, rank, dimension, local, global) bind(c)
      import
      type(c_ptr), value :: layout
      integer(c_int), value :: rank, dimension
      integer(c_int64_t), value :: local
      integer(c_int64_t), intent(out) :: global
    end function
    integer(c_int) function tremula_out_open(session, stream, options, out) bind(c)
      import
      type(c_ptr), value :: session
      character(kind=c_char), intent(in) :: stream(*), options(*)
      type(c_ptr), intent(out) :: out
    end function
    integer(c_int) function tremula_out_field(out, name, type, layout, field) bind(c)
      import
      type(c_ptr), value :: out, layout
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: type
      integer(c_int), intent(out) :: field
    end function
    integer(c_int) function tremula_out_attribute(out, of, name, type, values, count) bind(c)
      import
      type(c_ptr), value :: out, values
      integer(c_int), value :: of, type
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: count
    end function
    integer(c_int) function tremula_out_time(out, time) bind(c)
      import
      type(c_ptr), value :: out
      integer(c_int64_t), value :: time
    end function
    integer(c_int) function tremula_out_begin_step(out) bind(c)
      import
      type(c_ptr), value :: out
    end function
    integer(c_int) function tremula_out_put(out, field, data, bytes) bind(c)
      import
      type(c_ptr), value :: out, data
      integer(c_int), value :: field
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function tremula_out_put_async(out, field, data, bytes, request) bind(c)
      import
      type(c_ptr), value :: out, data
      integer(c_int), value :: field
      integer(c_size_t), value :: bytes
      integer(c_int64_t), intent(out) :: request
    end function
    integer(c_int) function tremula_out_wait(out, request) bind(c)
      import
      type(c_ptr), value :: out
      integer(c_int64_t), value :: request
    end function
    integer(c_int) function tremula_out_end_step(out) bind(c)
      import
      type(c_ptr), value :: out
    end function
    integer(c_int) function tremula_out_close(out) bind(c)
      import
      type(c_ptr), value :: out
    end function
    subroutine tremula_out_free(out) bind(c)
      import
      type(c_ptr), value :: out
    end subroutine
    integer(c_int) function tremula_out_statistics(out, statistics) bind(c)
      import
      type(c_ptr), value :: out
      type(tremula_statistics), intent(inout) :: statistics
    end function
  end interface

contains

  ! Ends the program with Tremula's own text if a call has failed.
  subroutine expect_ok(status, what)
    integer(c_int), intent(in) :: status
    character(len=*), intent(in) :: what
    character(kind=c_char), pointer :: text(:)
    integer :: length
    if (status >= 0) return
    call c_f_pointer(tremula_last_error(), text, [4096])
    length = 0
    do while (length < 4096)
      if (text(length + 1) == c_null_char) exit
      length = length + 1
    end do
    print '(*(a))', what, ': ', text(:length)
    stop 1
  end subroutine
end module
