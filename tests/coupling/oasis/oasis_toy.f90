! SPDX-License-Identifier: Apache-2.0
!> oasis_toy PLAN: a component that makes the calls of OASIS3-MCT's toys, in the same order. The plan lists partitions
!> and variables. In time step i, the value of point g (from 0) of field f (from 1) of the variable in slot s is
!>   g + 1024*mod(5*i + s, 8) + 8192*mod(s, 16) + (f - 1)/4
!> which real(4) also represents exactly. The kinfo of each call, and the array that each get returns, are written to
!> the file OUTPUT.RANK.
program oasis_toy
  use mpi
  use tremula_oasis
  implicit none
  type :: partition
    integer :: id, points
    integer, allocatable :: numbers(:)
  end type
  type :: variable
    integer :: id, part, bundle, direction, bytes, dimensions, slot
    character(80) :: name
  end type
  type(partition), allocatable :: partitions(:)
  type(variable), allocatable :: variables(:)
  character(80) :: component
  character(512) :: plan, output
  integer :: comp_id, comm, rank, ierr, unit, out_unit
  integer :: gets_first, step, runtime, first_step, date

  call get_command_argument(1, plan)
  open (newunit=unit, file=trim(plan), status='old', action='read')
  read (unit, '(a)') component
  read (unit, '(a)') output

  call oasis_init_comp(comp_id, trim(component), ierr)
  call oasis_get_localcomm(comm, ierr)
  call MPI_Comm_rank(comm, rank, ierr)
  write (output, '(a, a, i0)') trim(output), '.', rank
  open (newunit=out_unit, file=trim(output), access='stream', form='unformatted', status='replace')

  read (unit, *) gets_first, step, runtime, first_step
  call read_partitions()
  call read_variables()
  close (unit)
  call oasis_enddef(ierr)

  do date = 0, runtime - 1, step
    if (gets_first == 1) call move_all(OASIS_In)
    call move_all(OASIS_Out)
    if (gets_first == 0) call move_all(OASIS_In)
  end do

  call oasis_terminate(ierr)
  close (out_unit)

contains

  subroutine read_partitions()
    integer :: count, ranks, p, r, length, ig_size, points
    integer, allocatable :: ig_paral(:), numbers(:)
    read (unit, *) count
    allocate (partitions(count))
    do p = 1, count
      read (unit, *) ranks, ig_size
      do r = 0, ranks - 1
        read (unit, *) length, points
        allocate (ig_paral(length), numbers(points))
        read (unit, *) ig_paral
        if (points > 0) read (unit, *) numbers
        if (r == rank) then
          if (ig_size > 0) call oasis_def_partition(partitions(p)%id, ig_paral, ierr, ig_size)
          if (ig_size == 0) call oasis_def_partition(partitions(p)%id, ig_paral, ierr)
          partitions(p)%points = points
          partitions(p)%numbers = numbers
        end if
        deallocate (ig_paral, numbers)
      end do
    end do
  end subroutine

  subroutine read_variables()
    integer :: count, i
    read (unit, *) count
    allocate (variables(count))
    do i = 1, count
      associate (v => variables(i))
        read (unit, *) v%name, v%part, v%bundle, v%direction, v%bytes, v%dimensions, v%slot
        call oasis_def_var(v%id, v%name, partitions(v%part)%id, [1, v%bundle], v%direction, OASIS_Real, ierr)
        if (v%id < 1) call oasis_abort(comp_id, 'oasis_toy', 'a variable is not coupled: '//v%name)
      end associate
    end do
  end subroutine

  subroutine move_all(direction)
    integer, intent(in) :: direction
    integer :: i
    do i = 1, size(variables)
      if (variables(i)%direction == direction) call move(variables(i))
    end do
  end subroutine

  subroutine move(v)
    type(variable), intent(in) :: v
    real(ip_double_p), allocatable :: values(:, :)
    integer :: f, kinfo
    associate (p => partitions(v%part))
      allocate (values(p%points, v%bundle))
      values = -1
      if (v%direction == OASIS_Out) then
        do f = 1, v%bundle
          values(:, f) = p%numbers + 1024*mod(5*(first_step + date/step) + v%slot, 8) + 8192*mod(v%slot, 16) + 0.25d0*(f - 1)
        end do
        call put(v, values, kinfo)
        write (out_unit) v%slot, date, kinfo, 0
      else
        call get(v, values, kinfo)
        write (out_unit) v%slot, date, kinfo, size(values), values
      end if
    end associate
  end subroutine

  !> Puts through the specific procedure for v%bytes and v%dimensions. The last dimension of a bundle numbers its
  !> fields.
  subroutine put(v, values, kinfo)
    type(variable), intent(in) :: v
    real(ip_double_p), intent(in) :: values(:, :)
    integer, intent(out) :: kinfo
    integer :: n, b
    n = size(values, 1)
    b = size(values, 2)
    select case (10*v%bytes + v%dimensions)
    case (81)
      call oasis_put(v%id, date, reshape(values, [n*b]), kinfo)
    case (82)
      call oasis_put(v%id, date, values, kinfo)
    case (83)
      call oasis_put(v%id, date, reshape(values, [n, 1, b]), kinfo)
    case (41)
      call oasis_put(v%id, date, reshape(real(values), [n*b]), kinfo)
    case (42)
      call oasis_put(v%id, date, real(values), kinfo)
    case (43)
      call oasis_put(v%id, date, reshape(real(values), [n, 1, b]), kinfo)
    end select
  end subroutine

  subroutine get(v, values, kinfo)
    type(variable), intent(in) :: v
    real(ip_double_p), intent(inout) :: values(:, :)
    integer, intent(out) :: kinfo
    real(ip_double_p), allocatable :: d1(:), d3(:, :, :)
    real(ip_single_p), allocatable :: s1(:), s2(:, :), s3(:, :, :)
    integer :: n, b
    n = size(values, 1)
    b = size(values, 2)
    allocate (d1(n*b), d3(n, 1, b), s1(n*b), s2(n, b), s3(n, 1, b))
    select case (10*v%bytes + v%dimensions)
    case (81)
      d1 = reshape(values, [n*b])
      call oasis_get(v%id, date, d1, kinfo)
      values = reshape(d1, [n, b])
    case (82)
      call oasis_get(v%id, date, values, kinfo)
    case (83)
      d3 = reshape(values, [n, 1, b])
      call oasis_get(v%id, date, d3, kinfo)
      values = reshape(d3, [n, b])
    case (41)
      s1 = reshape(real(values), [n*b])
      call oasis_get(v%id, date, s1, kinfo)
      values = reshape(s1, [n, b])
    case (42)
      s2 = real(values)
      call oasis_get(v%id, date, s2, kinfo)
      values = s2
    case (43)
      s3 = reshape(real(values), [n, 1, b])
      call oasis_get(v%id, date, s3, kinfo)
      values = reshape(s3, [n, b])
    end select
  end subroutine
end program
