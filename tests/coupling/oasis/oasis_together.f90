! SPDX-License-Identifier: Apache-2.0
!> oasis_together NAME: one of three components of one job. 'giver' and 'taker' couple all ranks except rank 1, and
!> 'clerk' couples none. Each rank prints that it is right, or names the fault.
program oasis_together
  use mpi
  use tremula_oasis
  implicit none
  integer, parameter :: points = 12
  character(40) :: name
  integer :: id, part, var, local, coupled_comm, rank, size, world_size, ierr, kinfo, date, i, ncpl, freqs(1)
  real(ip_double_p), allocatable :: field(:)

  call get_command_argument(1, name)
  call oasis_init_comp(id, trim(name), ierr, coupled=name /= 'clerk')
  call oasis_get_localcomm(local, ierr)
  call MPI_Comm_rank(local, rank, ierr)
  call MPI_Comm_size(local, size, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, world_size, ierr)
  call expect(world_size == 3 + 3 + 1, 'the job has 7 ranks')
  select case (name)
  case ('clerk')
    call expect(size == 1 .and. id == 2, 'the clerk is alone, and the second component')
    call oasis_def_partition(part, [0, 0, points], ierr)
    call oasis_def_var(var, 'GIVEN', part, [1, 1], OASIS_Out, OASIS_Real, ierr)
    call oasis_enddef(ierr)
    allocate (field(points))
    call oasis_put(var, 0, field, kinfo)
    call expect(kinfo == OASIS_Ok, 'a component that is not coupled puts nothing')
  case default
    call expect(size == 3, 'giver and taker have 3 ranks')
    call expect(id == merge(1, 3, name == 'giver'), 'components are counted by their first ranks')
    call oasis_create_couplcomm(merge(1, MPI_UNDEFINED, rank /= 1), local, coupled_comm, ierr)
    if (coupled_comm == MPI_COMM_NULL) then
      call oasis_enddef(ierr)
    else
      call MPI_Comm_rank(coupled_comm, rank, ierr)
      call exchange()
    end if
  end select
  call oasis_terminate(ierr)
  print '(a, a)', trim(name), ' is right'

contains

  subroutine exchange()
    integer :: numbers(points/2)
    numbers = [(rank*points/2 + i, i=0, points/2 - 1)]
    if (name == 'taker') numbers = [(2*i + rank, i=0, points/2 - 1)]
    call oasis_def_partition(part, [OASIS_Points, points/2, numbers + 1], ierr, name='half')
    allocate (field(points/2))
    if (name == 'giver') then
      call oasis_def_var(var, 'GIVEN', part, [1, 1], OASIS_Out, [1, points/2], OASIS_Double, ierr)
    else
      call oasis_def_var(var, 'TAKEN', part, [1, 1], OASIS_In, reshape([1, points/2], [2, 1]), OASIS_Double, ierr)
    end if
    call oasis_enddef(ierr)
    call oasis_get_ncpl(var, ncpl, kinfo)
    call expect(ncpl == 1, 'there is one coupling')
    call oasis_get_freqs(var, merge(OASIS_Out, OASIS_In, name == 'giver'), ncpl, freqs, kinfo)
    call expect(freqs(1) == 600, 'the coupling period is 600 s')
    do date = 0, 1800, 300
      if (name == 'giver') then
        call oasis_put_inquire(var, date, kinfo)
        call expect(kinfo == merge(OASIS_Sent, OASIS_Ok, mod(date, 600) == 0), 'put_inquire knows what put will do')
        field = numbers + date
        call oasis_put(var, date, field, kinfo)
        call expect(kinfo == merge(OASIS_Sent, OASIS_Ok, mod(date, 600) == 0), 'put sends at coupling dates')
      else
        field = -1
        call oasis_get(var, date, field, kinfo)
        if (mod(date, 600) == 0) call expect(kinfo == OASIS_Recvd .and. all(nint(field) == numbers + date), &
          'the field is right')
        if (mod(date, 600) /= 0) call expect(kinfo == OASIS_Ok .and. all(nint(field) == -1), &
          'the field is unchanged')
      end if
    end do
  end subroutine

  subroutine expect(is_so, what)
    logical, intent(in) :: is_so
    character(*), intent(in) :: what
    if (.not. is_so) call oasis_abort(id, 'oasis_together', 'expected that '//what)
  end subroutine
end program
