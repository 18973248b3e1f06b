! SPDX-License-Identifier: Apache-2.0
! The ocean: a layer of water in every element that is sea; land has no elements. Each of n ranks has every n-th
! element.
!
!   ocean INPUT OUTPUT FIRST_DAY DAYS
!
! The working folder contains namcouple, the weights and the restart files. OUTPUT/ocean.bin receives, for each day, the
! three fluxes that arrived and the resulting temperature. OUTPUT/ocean_state.bin receives the final temperature, from
! which the next run continues.
program ocean
  use mpi
  use models
  use files
  use tremula_oasis
  implicit none
  character(:), allocatable :: input, output
  integer :: first_day, days, component, partition, id_sst, id_heat, id_taux, id_tauy, info, ierr
  integer :: comm, rank, ranks, i, date, today
  integer, allocatable :: numbers(:)
  real(dp) :: is_sea(ocean_size)
  real(dp), allocatable :: sst(:), mean(:), heat(:), taux(:), tauy(:)

  input = argument(1)
  output = argument(2)
  first_day = number_argument(3)
  days = number_argument(4)
  call oasis_init_comp(component, 'ocean', ierr)
  call oasis_get_localcomm(comm, ierr)
  call MPI_Comm_rank(comm, rank, ierr)
  call MPI_Comm_size(comm, ranks, ierr)

  call read_part(input//'/ocean.bin', ocean_size, 0, [(i, i=1, ocean_size)], is_sea)
  numbers = pack([(i, i=1, ocean_size)], is_sea > 0)
  numbers = numbers(rank + 1::ranks)
  allocate (sst(size(numbers)), mean(size(numbers)), heat(size(numbers)), taux(size(numbers)), tauy(size(numbers)))
  call read_part(input//'/ocean.bin', ocean_size, 2, numbers, mean)
  if (first_day == 0) then
    call read_part(input//'/ocean.bin', ocean_size, 1, numbers, sst)
  else
    call read_part(output//'/ocean_state.bin', ocean_size, 0, numbers, sst)
  end if
  if (rank == 0) then
    call make_file(output//'/ocean.bin', ocean_size, 4*(first_day + days))
    call make_file(output//'/ocean_state.bin', ocean_size, 1)
  end if
  call MPI_Barrier(comm, ierr)

  call oasis_def_partition(partition, [OASIS_Points, size(numbers), numbers], ierr, ocean_size)
  call oasis_def_var(id_sst, 'OSST', partition, [1, 1], OASIS_Out, OASIS_Real, ierr)
  call oasis_def_var(id_heat, 'OHEAT', partition, [1, 1], OASIS_In, OASIS_Real, ierr)
  call oasis_def_var(id_taux, 'OTAUX', partition, [1, 1], OASIS_In, OASIS_Real, ierr)
  call oasis_def_var(id_tauy, 'OTAUY', partition, [1, 1], OASIS_In, OASIS_Real, ierr)
  call oasis_enddef(ierr)

  do today = first_day, first_day + days - 1
    date = (today - first_day)*day
    call oasis_get(id_heat, date, heat, info)
    call oasis_get(id_taux, date, taux, info)
    call oasis_get(id_tauy, date, tauy, info)
    call write_part(output//'/ocean.bin', ocean_size, 4*today, numbers, heat)
    call write_part(output//'/ocean.bin', ocean_size, 4*today + 1, numbers, taux)
    call write_part(output//'/ocean.bin', ocean_size, 4*today + 2, numbers, tauy)
    call sea_day(sst, mean, heat, taux, tauy)
    call write_part(output//'/ocean.bin', ocean_size, 4*today + 3, numbers, sst)
    call oasis_put(id_sst, date, sst, info)
  end do
  call write_part(output//'/ocean_state.bin', ocean_size, 0, numbers, sst)
  call oasis_terminate(ierr)
end program
