! SPDX-License-Identifier: Apache-2.0
!> oasis_words COMPONENT: 'source' puts a field of 4 points, whose element g is g**2 + date; 'target' gets the field and
!> prints it. The namcouple states how the field changes in between. 'serial_source' and 'serial_target' do the same,
!> but only their rank 1 has points, and the other ranks make no calls for the field. All ranks put or get a second
!> field. In 'shared_source' and 'shared_target', the second field is on the partition of the first field: only rank 1
!> has points, and the other ranks define the second field without points. Its element g is 10*date + g. By the weights
!> of the first field, the target gets half of each element, but nothing of the last one. In 'apart_source' and
!> 'apart_target', rank 1 makes no calls for the second field, so no rank has both fields. In 'apart_bundle_source' and
!> 'apart_bundle_target', the second field is also a bundle of two equal fields.
program oasis_words
  use mpi
  use tremula_oasis
  implicit none
  character(20) :: component
  integer :: id, comm, rank, size, ierr, part, var, date, info, begin, points, i, all, second, fields
  logical :: is_source, is_serial, is_shared, is_apart, takes_part, has_second
  real(ip_double_p), allocatable :: values(:), expected(:), more(:)

  call get_command_argument(1, component)
  call oasis_init_comp(id, trim(component), ierr)
  call oasis_get_localcomm(comm, ierr)
  call MPI_Comm_rank(comm, rank, ierr)
  call MPI_Comm_size(comm, size, ierr)
  is_source = index(component, 'source') > 0
  is_serial = component /= 'source' .and. component /= 'target'
  is_shared = index(component, 'shared') > 0
  is_apart = index(component, 'apart') > 0
  fields = merge(2, 1, index(component, 'bundle') > 0)
  takes_part = .not. is_serial .or. rank == 1
  has_second = is_serial .and. .not. (is_apart .and. rank == 1)
  points = 4/size
  begin = rank*points
  if (is_serial) then
    points = merge(4, 0, takes_part)
    begin = 0
    if (is_apart) then
      call oasis_def_partition(all, [OASIS_Apple, rank/2, merge(1, 0, has_second)], ierr)
    else
      call oasis_def_partition(all, [OASIS_Apple, rank, 1], ierr)
    end if
  end if
  allocate (values(points))
  if (takes_part .or. is_shared) call oasis_def_partition(part, [OASIS_Apple, begin, points], ierr)
  if (is_shared) all = part
  if (takes_part) then
    if (is_source) call oasis_def_var(var, 'SST_OUT', part, [1, 1], OASIS_Out, OASIS_Real, ierr)
    if (.not. is_source) call oasis_def_var(var, 'SST_IN', part, [1, 1], OASIS_In, OASIS_Real, ierr)
  end if
  second = OASIS_Var_Uncpl
  if (has_second .and. is_source) call oasis_def_var(second, 'HEAT_OUT', all, [1, fields], OASIS_Out, OASIS_Real, ierr)
  if (has_second .and. .not. is_source) &
    call oasis_def_var(second, 'HEAT_IN', all, [1, fields], OASIS_In, OASIS_Real, ierr)
  call oasis_enddef(ierr)
  do date = 0, 119, 60
    if (is_source .and. takes_part) then
      values = [((begin + i)**2 + date, i=0, points - 1)]
      call oasis_put(var, date, values, info)
    else if (takes_part) then
      call oasis_get(var, date, values, info)
      print '(a, i0, *(f10.4))', 'got at ', date, values
    end if
    if (second < 1) cycle
    expected = [(rank + 10*date, i=1, fields)]
    if (is_shared) expected = [(10*date + i, i=0, points - 1)]
    if (is_source) then
      call oasis_put(second, date, expected, info)
    else
      if (is_shared) expected = expected/2*[(merge(1, 0, i < 3), i=0, points - 1)]
      more = 0*expected - 1
      call oasis_get(second, date, more, info)
      if (info /= OASIS_Recvd .or. any(abs(more - expected) > 1e-9)) &
        call oasis_abort(id, 'oasis_words', 'the second field is wrong')
    end if
  end do
  call oasis_terminate(ierr)
end program
