! SPDX-License-Identifier: Apache-2.0
! The atmosphere: computes the fluxes into the sea from the winds, air temperature and humidity of a climatology. Each
! rank has a box of the grid.
!
!   atmosphere INPUT OUTPUT FIRST_DAY DAYS BOXES_X BOXES_Y
!
! OUTPUT/atmosphere.bin receives the sea temperature that arrived for each day.
program atmosphere
  use mpi
  use models
  use files
  use tremula_oasis
  implicit none
  character(:), allocatable :: input, output
  integer :: first_day, days, boxes(2), component, partition, id_sst, id_heat, id_taux, id_tauy, info, ierr
  integer :: comm, rank, ranks, i, j, n, step, date, today, from(2), extent(2)
  integer, allocatable :: numbers(:)
  real(dp), allocatable :: months(:, :, :), now(:, :), has_sea(:), sst(:), heat(:), taux(:), tauy(:), latitude(:)

  input = argument(1)
  output = argument(2)
  first_day = number_argument(3)
  days = number_argument(4)
  boxes = [number_argument(5), number_argument(6)]
  call oasis_init_comp(component, 'atmosphere', ierr)
  call oasis_get_localcomm(comm, ierr)
  call MPI_Comm_rank(comm, rank, ierr)
  call MPI_Comm_size(comm, ranks, ierr)
  if (product(boxes) /= ranks) call oasis_abort(component, 'atmosphere', 'expected as many boxes as ranks')

  from = [air_nx, air_ny]*[modulo(rank, boxes(1)), rank/boxes(1)]/boxes
  extent = [air_nx, air_ny]*([modulo(rank, boxes(1)), rank/boxes(1)] + 1)/boxes - from
  numbers = [(((from(2) + j)*air_nx + from(1) + i + 1, i=0, extent(1) - 1), j=0, extent(2) - 1)]
  n = size(numbers)
  allocate (months(12, n, 5), now(n, 5), has_sea(n), sst(n), heat(n), taux(n), tauy(n), latitude(n))
  do i = 1, 12
    do j = 1, 5
      call read_part(input//'/atmosphere.bin', air_size, (i - 1)*5 + j - 1, numbers, months(i, :, j))
    end do
  end do
  call read_part(input//'/sea_at_atmosphere.bin', air_size, 0, numbers, has_sea)
  do i = 1, n
    latitude(i) = latitude_of_air(numbers(i))
  end do
  if (rank == 0) call make_file(output//'/atmosphere.bin', air_size, first_day + days)
  call MPI_Barrier(comm, ierr)

  call oasis_def_partition(partition, [OASIS_Box, from(2)*air_nx + from(1), extent(1), extent(2), air_nx], ierr, air_size)
  call oasis_def_var(id_sst, 'ASST', partition, [1, 1], OASIS_In, OASIS_Real, ierr)
  call oasis_def_var(id_heat, 'AHEAT', partition, [1, 1], OASIS_Out, OASIS_Real, ierr)
  call oasis_def_var(id_taux, 'ATAUX', partition, [1, 1], OASIS_Out, OASIS_Real, ierr)
  call oasis_def_var(id_tauy, 'ATAUY', partition, [1, 1], OASIS_Out, OASIS_Real, ierr)
  call oasis_enddef(ierr)

  do step = 0, days*day/air_step - 1
    date = step*air_step
    today = first_day + date/day
    call oasis_get(id_sst, date, sst, info)
    if (info == OASIS_Recvd) call write_part(output//'/atmosphere.bin', air_size, today, numbers, sst)
    do j = 1, 5
      do i = 1, n
        now(i, j) = of_date(months(:, i, j), first_day*day + date)
      end do
    end do
    ! The surface has the temperature of the air wherever there is no sea.
    call fluxes(now(:, 1), now(:, 2), now(:, 3), now(:, 4), now(:, 5), sun(latitude, first_day*day + date), &
      merge(sst, now(:, 1), has_sea > 0), heat, taux, tauy)
    call oasis_put(id_heat, date, heat, info)
    call oasis_put(id_taux, date, taux, info)
    call oasis_put(id_tauy, date, tauy, info)
  end do
  call oasis_terminate(ierr)
end program
