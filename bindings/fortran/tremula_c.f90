! SPDX-License-Identifier: Apache-2.0
! The declarations of tremula.h in Fortran, with the same names in the same order; a test compares the two. Arguments
! that may be NULL are pointers. Programs use the module tremula instead.
module tremula_c
  use, intrinsic :: iso_c_binding
  implicit none
  public

  integer(c_int), parameter :: tremula_integer = 1, tremula_real = 2, tremula_text = 3
  integer(c_int), parameter :: tremula_of_stream = -1, tremula_of_step = -2
  integer(c_int), parameter :: tremula_max_dimensions = 8

  type, bind(c) :: tremula_update
    integer(c_size_t) :: size
    type(c_ptr) :: from, to
    integer(c_int) :: from_type, to_type
    real(c_double) :: alpha(2), beta(2)
    integer(c_int) :: conjugate
    type(c_ptr) :: axes, extents, from_origin, to_origin
  end type

  type, bind(c) :: tremula_statistics
    integer(c_size_t) :: size
    integer(c_int64_t) :: steps, packages, bytes, copied_bytes
    real(c_double) :: plan_seconds, wait_seconds, copy_seconds, wire_seconds
    character(kind=c_char) :: transport(64)
    integer(c_int64_t) :: proved_bytes, dropped, queued_steps, queued_bytes, passed, growths
  end type

  type, bind(c) :: tremula_peer_statistics
    integer(c_size_t) :: size
    character(kind=c_char) :: group(256)
    integer(c_int) :: rank
    integer(c_int64_t) :: packages, bytes, copied_bytes
    real(c_double) :: copy_seconds, wire_seconds
    character(kind=c_char) :: path(16)
  end type

  interface
    type(c_ptr) function tremula_c_version() bind(c, name='tremula_version')
      import
    end function
    type(c_ptr) function tremula_last_error() bind(c)
      import
    end function
    integer(c_int) function tremula_session_open(group, rank, size, options, session) bind(c)
      import
      character(kind=c_char), intent(in) :: group(*)
      integer(c_int), value :: rank, size
      character(kind=c_char), intent(in) :: options(*)
      type(c_ptr), intent(out) :: session
    end function
    integer(c_int) function tremula_session_close(session) bind(c)
      import
      type(c_ptr), value :: session
    end function
    integer(c_int) function tremula_fail(status, text) bind(c)
      import
      integer(c_int), value :: status
      character(kind=c_char), intent(in) :: text(*)
    end function
    integer(c_int) function tremula_session_allgather(session, mine, bytes, all) bind(c)
      import
      type(c_ptr), value :: session, mine
      integer(c_size_t), value :: bytes
      type(c_ptr), value :: all
    end function
    integer(c_int) function tremula_session_ask(session, ask, context) bind(c)
      import
      type(c_ptr), value :: session
      type(c_funptr), value :: ask
      type(c_ptr), value :: context
    end function
    integer(c_int) function tremula_session_rank(session) bind(c)
      import
      type(c_ptr), value :: session
    end function
    integer(c_int) function tremula_session_size(session) bind(c)
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
    integer(c_int) function tremula_layout_from_scalapack(desc, rows, columns, layout) bind(c)
      import
      type(c_ptr), value :: desc
      integer(c_int), value :: rows, columns
      type(c_ptr), intent(out) :: layout
    end function
    integer(c_int) function tremula_layout_on_mesh(dimensions, shape, axes, mesh, dimension_of, split_factor, layout) bind(c)
      import
      integer(c_int), value :: dimensions
      type(c_ptr), value :: shape
      integer(c_int), value :: axes
      type(c_ptr), value :: mesh, dimension_of, split_factor
      type(c_ptr), intent(out) :: layout
    end function
    integer(c_int) function tremula_layout_of_points(dimensions, shape, ranks, options, count, points, layout) bind(c)
      import
      integer(c_int), value :: dimensions
      type(c_ptr), value :: shape
      integer(c_int), value :: ranks, options
      integer(c_int64_t), value :: count
      type(c_ptr), value :: points
      type(c_ptr), intent(out) :: layout
    end function
    integer(c_int) function tremula_layout_of_segments(dimensions, shape, ranks, options, count, begins, lengths, &
      layout) bind(c)
      import
      integer(c_int), value :: dimensions
      type(c_ptr), value :: shape
      integer(c_int), value :: ranks, options
      integer(c_int64_t), value :: count
      type(c_ptr), value :: begins, lengths
      type(c_ptr), intent(out) :: layout
    end function
    integer(c_int) function tremula_layout_of_boxes(dimensions, shape, ranks, options, count, origins, extents, layout) bind(c)
      import
      integer(c_int), value :: dimensions
      type(c_ptr), value :: shape
      integer(c_int), value :: ranks, options
      integer(c_int64_t), value :: count
      type(c_ptr), value :: origins, extents
      type(c_ptr), intent(out) :: layout
    end function
    subroutine tremula_layout_free(layout) bind(c)
      import
      type(c_ptr), value :: layout
    end subroutine
    type(c_ptr) function tremula_layout_text(layout) bind(c)
      import
      type(c_ptr), value :: layout
    end function
    integer(c_int) function tremula_layout_dimensions(layout) bind(c)
      import
      type(c_ptr), value :: layout
    end function
    integer(c_int) function tremula_layout_shape(layout, extents) bind(c)
      import
      type(c_ptr), value :: layout, extents
    end function
    integer(c_int) function tremula_layout_local(layout, rank, extents, strides, first, allocated) bind(c)
      import
      type(c_ptr), value :: layout
      integer(c_int), value :: rank
      type(c_ptr), value :: extents, strides
      integer(c_int64_t), intent(out) :: first, allocated
    end function
    integer(c_int) function tremula_layout_global_index(layout, rank, dimension, local, global) bind(c)
      import
      type(c_ptr), value :: layout
      integer(c_int), value :: rank, dimension
      integer(c_int64_t), value :: local
      integer(c_int64_t), intent(out) :: global
    end function
    integer(c_int) function tremula_layout_runs(layout, rank, count, numbers, places, lengths) bind(c)
      import
      type(c_ptr), value :: layout
      integer(c_int), value :: rank
      integer(c_int64_t), intent(inout) :: count
      type(c_ptr), value :: numbers, places, lengths
    end function
    integer(c_int) function tremula_layout_hash(layout, rank, type, data, bytes, hash) bind(c)
      import
      type(c_ptr), value :: layout
      integer(c_int), value :: rank, type
      type(c_ptr), value :: data
      integer(c_size_t), value :: bytes
      integer(c_int64_t), intent(out) :: hash
    end function
    integer(c_int) function tremula_relabel(updates, count, stride, ranks, places, exact, process, before, after) bind(c)
      import
      type(tremula_update), intent(in) :: updates(*)
      integer(c_size_t), value :: count, stride
      integer(c_int), value :: ranks
      type(c_ptr), value :: places
      integer(c_int), value :: exact
      type(c_ptr), value :: process, before, after
    end function
    integer(c_int) function tremula_layout_relabeled(layout, process, ranks, relabeled) bind(c)
      import
      type(c_ptr), value :: layout, process
      integer(c_int), value :: ranks
      type(c_ptr), intent(out) :: relabeled
    end function
    integer(c_int) function tremula_out_open(session, stream, options, out) bind(c)
      import
      type(c_ptr), value :: session
      character(kind=c_char), intent(in) :: stream(*), options(*)
      type(c_ptr), intent(out) :: out
    end function
    integer(c_int) function tremula_out_field(out, name, type, layout, field) bind(c)
      import
      type(c_ptr), value :: out
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: type
      type(c_ptr), value :: layout
      integer(c_int), intent(out) :: field
    end function
    integer(c_int) function tremula_out_part(out, name, type, layout, origin, shape, field) bind(c)
      import
      type(c_ptr), value :: out
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: type
      type(c_ptr), value :: layout, origin, shape
      integer(c_int), intent(out) :: field
    end function
    integer(c_int) function tremula_out_begin_step(out) bind(c)
      import
      type(c_ptr), value :: out
    end function
    integer(c_int) function tremula_out_begin_step_within(out, seconds) bind(c)
      import
      type(c_ptr), value :: out
      real(c_double), value :: seconds
    end function
    integer(c_int) function tremula_out_serve(out, seconds) bind(c)
      import
      type(c_ptr), value :: out
      real(c_double), value :: seconds
    end function
    integer(c_int) function tremula_out_is_ready(out, is_ready) bind(c)
      import
      type(c_ptr), value :: out
      integer(c_int), intent(out) :: is_ready
    end function
    integer(c_int) function tremula_out_attribute(out, of, name, type, values, count) bind(c)
      import
      type(c_ptr), value :: out
      integer(c_int), value :: of
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: type
      type(c_ptr), value :: values
      integer(c_size_t), value :: count
    end function
    integer(c_int) function tremula_out_time(out, time) bind(c)
      import
      type(c_ptr), value :: out
      integer(c_int64_t), value :: time
    end function
    integer(c_int) function tremula_out_put(out, field, data, bytes) bind(c)
      import
      type(c_ptr), value :: out
      integer(c_int), value :: field
      type(c_ptr), value :: data
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function tremula_out_put_async(out, field, data, bytes, request) bind(c)
      import
      type(c_ptr), value :: out
      integer(c_int), value :: field
      type(c_ptr), value :: data
      integer(c_size_t), value :: bytes
      integer(c_int64_t), intent(out) :: request
    end function
    integer(c_int) function tremula_out_test(out, request, is_taken) bind(c)
      import
      type(c_ptr), value :: out
      integer(c_int64_t), value :: request
      integer(c_int), intent(out) :: is_taken
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
    integer(c_int) function tremula_out_redeclare(out, count, fields, layouts) bind(c)
      import
      type(c_ptr), value :: out
      integer(c_int), value :: count
      type(c_ptr), value :: fields
      type(c_ptr), intent(in) :: layouts(*)
    end function
    integer(c_int) function tremula_out_close(out) bind(c)
      import
      type(c_ptr), value :: out
    end function
    subroutine tremula_out_free(out) bind(c)
      import
      type(c_ptr), value :: out
    end subroutine
    integer(c_int) function tremula_describe(session, stream, seconds, description) bind(c)
      import
      type(c_ptr), value :: session
      character(kind=c_char), intent(in) :: stream(*)
      real(c_double), value :: seconds
      type(c_ptr), intent(out) :: description
    end function
    subroutine tremula_description_free(description) bind(c)
      import
      type(c_ptr), value :: description
    end subroutine
    type(c_ptr) function tremula_description_producer(description) bind(c)
      import
      type(c_ptr), value :: description
    end function
    integer(c_int) function tremula_description_ranks(description) bind(c)
      import
      type(c_ptr), value :: description
    end function
    integer(c_int) function tremula_description_queue_depth(description) bind(c)
      import
      type(c_ptr), value :: description
    end function
    integer(c_int) function tremula_description_fields(description) bind(c)
      import
      type(c_ptr), value :: description
    end function
    integer(c_int) function tremula_description_field(description, field, name, type, layout) bind(c)
      import
      type(c_ptr), value :: description
      integer(c_int), value :: field
      type(c_ptr), intent(out) :: name
      integer(c_int), intent(out) :: type
      type(c_ptr), intent(out) :: layout
    end function
    integer(c_int) function tremula_description_parts(description) bind(c)
      import
      type(c_ptr), value :: description
    end function
    integer(c_int) function tremula_description_part(description, field, part, group, layout, origin) bind(c)
      import
      type(c_ptr), value :: description
      integer(c_int), value :: field, part
      type(c_ptr), intent(out) :: group, layout
      type(c_ptr), value :: origin
    end function
    integer(c_int) function tremula_description_attributes(description, of, attributes) bind(c)
      import
      type(c_ptr), value :: description
      integer(c_int), value :: of
      type(c_ptr), intent(out) :: attributes
    end function
    subroutine tremula_attributes_free(attributes) bind(c)
      import
      type(c_ptr), value :: attributes
    end subroutine
    integer(c_int) function tremula_attributes_count(attributes) bind(c)
      import
      type(c_ptr), value :: attributes
    end function
    integer(c_int) function tremula_attributes_at(attributes, number, name, type, count, values) bind(c)
      import
      type(c_ptr), value :: attributes
      integer(c_int), value :: number
      type(c_ptr), intent(out) :: name
      integer(c_int), intent(out) :: type
      integer(c_size_t), intent(out) :: count
      type(c_ptr), intent(out) :: values
    end function
    integer(c_int) function tremula_attributes_find(attributes, name, number) bind(c)
      import
      type(c_ptr), value :: attributes
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), intent(out) :: number
    end function
    integer(c_int) function tremula_in_open(session, stream, options, in) bind(c)
      import
      type(c_ptr), value :: session
      character(kind=c_char), intent(in) :: stream(*), options(*)
      type(c_ptr), intent(out) :: in
    end function
    integer(c_int) function tremula_in_field(in, name, type, layout, field) bind(c)
      import
      type(c_ptr), value :: in
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: type
      type(c_ptr), value :: layout
      integer(c_int), intent(out) :: field
    end function
    integer(c_int) function tremula_in_update(in, name, update, field) bind(c)
      import
      type(c_ptr), value :: in
      character(kind=c_char), intent(in) :: name(*)
      type(tremula_update), intent(in) :: update
      integer(c_int), intent(out) :: field
    end function
    integer(c_int) function tremula_in_relabel(in, options, label) bind(c)
      import
      type(c_ptr), value :: in
      character(kind=c_char), intent(in) :: options(*)
      integer(c_int), intent(out) :: label
    end function
    integer(c_int) function tremula_in_begin_step(in) bind(c)
      import
      type(c_ptr), value :: in
    end function
    integer(c_int) function tremula_in_begin_step_within(in, seconds) bind(c)
      import
      type(c_ptr), value :: in
      real(c_double), value :: seconds
    end function
    integer(c_int) function tremula_in_begin_step_at(in, time, unit) bind(c)
      import
      type(c_ptr), value :: in
      integer(c_int64_t), value :: time
      character(kind=c_char), intent(in) :: unit(*)
    end function
    integer(c_int) function tremula_in_begin_step_around(in, time, unit) bind(c)
      import
      type(c_ptr), value :: in
      integer(c_int64_t), value :: time
      character(kind=c_char), intent(in) :: unit(*)
    end function
    integer(c_int) function tremula_in_is_ready(in, is_ready) bind(c)
      import
      type(c_ptr), value :: in
      integer(c_int), intent(out) :: is_ready
    end function
    integer(c_int) function tremula_in_step(in, step) bind(c)
      import
      type(c_ptr), value :: in
      integer(c_int64_t), intent(out) :: step
    end function
    integer(c_int) function tremula_in_time(in, time) bind(c)
      import
      type(c_ptr), value :: in
      integer(c_int64_t), intent(out) :: time
    end function
    integer(c_int) function tremula_in_attributes(in, of, attributes) bind(c)
      import
      type(c_ptr), value :: in
      integer(c_int), value :: of
      type(c_ptr), intent(out) :: attributes
    end function
    integer(c_int) function tremula_in_layout(in, field, layout) bind(c)
      import
      type(c_ptr), value :: in
      integer(c_int), value :: field
      type(c_ptr), intent(out) :: layout
    end function
    integer(c_int) function tremula_in_redeclare(in, count, fields, layouts) bind(c)
      import
      type(c_ptr), value :: in
      integer(c_int), value :: count
      type(c_ptr), value :: fields
      type(c_ptr), intent(in) :: layouts(*)
    end function
    integer(c_int) function tremula_in_redeclarations(in, count) bind(c)
      import
      type(c_ptr), value :: in
      integer(c_int64_t), intent(out) :: count
    end function
    integer(c_int) function tremula_in_fills(in, field, fills) bind(c)
      import
      type(c_ptr), value :: in
      integer(c_int), value :: field
      integer(c_int), intent(out) :: fills
    end function
    integer(c_int) function tremula_in_get(in, field, data, bytes) bind(c)
      import
      type(c_ptr), value :: in
      integer(c_int), value :: field
      type(c_ptr), value :: data
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function tremula_in_end_step(in) bind(c)
      import
      type(c_ptr), value :: in
    end function
    integer(c_int) function tremula_in_close(in) bind(c)
      import
      type(c_ptr), value :: in
    end function
    subroutine tremula_in_free(in) bind(c)
      import
      type(c_ptr), value :: in
    end subroutine
    integer(c_int) function tremula_out_statistics(out, statistics) bind(c)
      import
      type(c_ptr), value :: out
      type(tremula_statistics), intent(inout) :: statistics
    end function
    integer(c_int) function tremula_in_statistics(in, statistics) bind(c)
      import
      type(c_ptr), value :: in
      type(tremula_statistics), intent(inout) :: statistics
    end function
    integer(c_int) function tremula_out_step_statistics(out, statistics) bind(c)
      import
      type(c_ptr), value :: out
      type(tremula_statistics), intent(inout) :: statistics
    end function
    integer(c_int) function tremula_in_step_statistics(in, statistics) bind(c)
      import
      type(c_ptr), value :: in
      type(tremula_statistics), intent(inout) :: statistics
    end function
    integer(c_int) function tremula_out_peers(out, peers, room, stride, count) bind(c)
      import
      type(c_ptr), value :: out
      type(tremula_peer_statistics), intent(inout) :: peers(*)
      integer(c_size_t), value :: room, stride
      integer(c_size_t), intent(out) :: count
    end function
    integer(c_int) function tremula_in_peers(in, peers, room, stride, count) bind(c)
      import
      type(c_ptr), value :: in
      type(tremula_peer_statistics), intent(inout) :: peers(*)
      integer(c_size_t), value :: room, stride
      integer(c_size_t), intent(out) :: count
    end function
  end interface
end module
