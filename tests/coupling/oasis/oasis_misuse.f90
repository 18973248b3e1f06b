! SPDX-License-Identifier: Apache-2.0
!> oasis_misuse WHAT: a component named WHAT that makes one mistake. A program that is not stopped prints
!> "was not stopped" as its last line.
program oasis_misuse
  use mpi
  use tremula_oasis
  implicit none
  character(40) :: what
  integer :: id, part, var, var_b, comm, rank, ierr, kinfo, roots(2)
  double precision :: field(6), lon(3, 2)

  field = 1
  lon = 0
  call get_command_argument(1, what)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  if (what == 'before_init') call oasis_enddef(ierr)
  call oasis_init_comp(id, trim(what), ierr)
  call oasis_get_localcomm(comm, ierr)
  select case (what)
  case ('init_twice')
    call oasis_init_comp(id, trim(what), ierr)
  case ('cube')
    call oasis_def_partition(part, [5, 0, 1, 1, 1, 1, 1], ierr)
  case ('size')
    call oasis_def_partition(part, [1, 2, 6], ierr, 7)
  case ('no_partition')
    call oasis_def_var(var, 'SST', 1, [1, 1], OASIS_Out, OASIS_Real, ierr)
  case ('intracomm')
    call oasis_get_intracomm(comm, 'atmos', ierr)
  case ('intercomm')
    call oasis_get_intercomm(comm, 'atmos', ierr)
  case ('multi_intracomm')
    call oasis_get_multi_intracomm(comm, ['atmos', 'ocean'], roots, ierr)
  case ('grid')
    call oasis_start_grids_writing(ierr)
    if (rank == 1) then
      call oasis_write_grid('ogrd', 3, 2, lon, lon)
      call oasis_write_area('ogrd', 3, 2, lon)
      call oasis_write_mask('ogrd', 3, 2, nint(lon))
    end if
    call oasis_terminate_grids_writing()
  case ('grid_in_parts')
    call oasis_start_grids_writing(ierr)
    call oasis_write_grid('ogrd', 3, 2, lon, lon, partid=1)
    call oasis_write_area('ogrd', 3, 2, lon, partid=1)
    call oasis_terminate_grids_writing()
  case ('abort')
    call oasis_abort(id, 'ocean_step', 'the ice is too thick')
  end select

  if (what == 'ig_size') call oasis_def_partition(part, [OASIS_Apple, 0, 6], ierr, 6)
  if (what /= 'ig_size') call oasis_def_partition(part, [OASIS_Apple, 0, merge(6, 0, rank == 0)], ierr)
  select case (what)
  case ('direction')
    call oasis_def_var(var, 'SST', part, [1, 1], OASIS_In, OASIS_Real, ierr)
  case ('in_or_out')
    call oasis_def_var(var, 'SST', part, [1, 1], OASIS_InOut, OASIS_Real, ierr)
  case ('type')
    call oasis_def_var(var, 'SST', part, [1, 1], OASIS_Out, 3, ierr)
  end select
  if (what == 'bundle_differs' .and. rank == 1) &
    call oasis_def_var(var, 'SST', part, [1, 2], OASIS_Out, OASIS_Real, ierr)
  if (what /= 'bundle_differs' .or. rank /= 1) &
    call oasis_def_var(var, 'SST', part, [1, 1], OASIS_Out, OASIS_Real, ierr)
  if (what == 'var_twice') call oasis_def_var(var, 'SST', part, [1, 1], OASIS_Out, OASIS_Real, ierr)
  if (what == 'ranks_differ' .and. rank == 1) &
    call oasis_def_var(var_b, 'HEAT', part, [1, 1], OASIS_In, OASIS_Real, ierr)
  if (what == 'to_itself') call oasis_def_var(var_b, 'COPY', part, [1, 1], OASIS_In, OASIS_Real, ierr)
  if (what == 'put_uncoupled') call oasis_def_var(var_b, 'ICE', part, [1, 1], OASIS_Out, OASIS_Real, ierr)
  if (what == 'before_enddef') call oasis_put(var, 0, field, kinfo)
  if (what == 'terminate_twice') then
    call oasis_terminate(ierr)
    call oasis_terminate(ierr)
  end if

  call oasis_enddef(ierr)
  select case (what)
  case ('enddef_twice')
    call oasis_enddef(ierr)
  case ('late_var')
    call oasis_def_var(var_b, 'HEAT', part, [1, 1], OASIS_In, OASIS_Real, ierr)
  case ('array')
    call oasis_put(var, 900, field(:5), kinfo)
  case ('get_of_out')
    call oasis_get(var, 900, field, kinfo)
  case ('no_variable')
    call oasis_put(17, 900, field, kinfo)
  case ('put_uncoupled')
    call oasis_put(OASIS_Var_Uncpl, 900, field, kinfo)
  case ('after_the_end')
    call oasis_put(var, 7200, field, kinfo)
  case ('negative_date')
    call oasis_put(var, -900, field, kinfo)
  case ('backwards')
    call oasis_put(var, 1800, field, kinfo)
    call oasis_put(var, 900, field, kinfo)
  case ('higher_order')
    call oasis_put(var, 900, field, kinfo, field)
  case ('write_restart')
    call oasis_put(var, 900, field, kinfo, write_restart=.true.)
  case ('no_target')
    call oasis_put(var, 0, field, kinfo)
  case ('idle_rank')
    if (rank == 0) call oasis_put(var, 0, field, kinfo)
    call MPI_Barrier(comm, ierr)
  end select
  if (what == 'grid' .or. what == 'grid_in_parts') call MPI_Finalize(ierr)
  print '(a)', 'was not stopped'
end program
