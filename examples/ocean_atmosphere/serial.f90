! SPDX-License-Identifier: Apache-2.0
! Runs both models in one process, without Tremula, MPI or OASIS. The coupled programs must give the same result, bit
! for bit.
!
!   serial INPUT OUTPUT DAYS
program serial
  use models
  use files
  implicit none

  !> A sparse matrix, stored row by row, each row in ascending order of columns.
  type :: matrix
    integer, allocatable :: begins(:), columns(:)
    real(dp), allocatable :: weights(:)
  end type

  character(:), allocatable :: input, output
  integer :: days, today, step, date, i, j
  integer :: all_sea(ocean_size), all_air(air_size)
  type(matrix) :: to_air, to_sea
  real(dp) :: is_sea(ocean_size), sst(ocean_size), mean(ocean_size), given(ocean_size)
  real(dp), dimension(ocean_size) :: heat_sea, taux_sea, tauy_sea
  real(dp), dimension(air_size) :: has_sea, latitude, sst_air, heat, taux, tauy, sum_heat, sum_taux, sum_tauy
  real(dp), allocatable :: months(:, :, :), now(:, :)

  input = argument(1)
  output = argument(2)
  days = number_argument(3)
  all_sea = [(i, i=1, ocean_size)]
  all_air = [(i, i=1, air_size)]
  call read_matrix(input//'/o2a.bin', air_size, to_air)
  call read_matrix(input//'/a2o.bin', ocean_size, to_sea)
  call read_part(input//'/ocean.bin', ocean_size, 0, all_sea, is_sea)
  call read_part(input//'/ocean.bin', ocean_size, 1, all_sea, sst)
  call read_part(input//'/ocean.bin', ocean_size, 2, all_sea, mean)
  call read_part(input//'/sea_at_atmosphere.bin', air_size, 0, all_air, has_sea)
  allocate (months(12, air_size, 5), now(air_size, 5))
  do i = 1, 12
    do j = 1, 5
      call read_part(input//'/atmosphere.bin', air_size, (i - 1)*5 + j - 1, all_air, months(i, :, j))
    end do
  end do
  do i = 1, air_size
    latitude(i) = latitude_of_air(i)
  end do
  call make_file(output//'/ocean.bin', ocean_size, 4*days)
  call make_file(output//'/atmosphere.bin', air_size, days)

  given = sst
  sum_heat = 0
  sum_taux = 0
  sum_tauy = 0
  do today = 0, days - 1
    ! Each model receives what the other computed for the day before.
    sst_air = times(to_air, given)
    heat_sea = times(to_sea, sum_heat)
    taux_sea = times(to_sea, sum_taux)
    tauy_sea = times(to_sea, sum_tauy)
    call write_part(output//'/atmosphere.bin', air_size, today, all_air, sst_air)
    do step = 0, day/air_step - 1
      date = today*day + step*air_step
      do j = 1, 5
        do i = 1, air_size
          now(i, j) = of_date(months(:, i, j), date)
        end do
      end do
      call fluxes(now(:, 1), now(:, 2), now(:, 3), now(:, 4), now(:, 5), sun(latitude, date), &
        merge(sst_air, now(:, 1), has_sea > 0), heat, taux, tauy)
      if (step == 0) then
        sum_heat = heat
        sum_taux = taux
        sum_tauy = tauy
      else
        sum_heat = sum_heat + heat
        sum_taux = sum_taux + taux
        sum_tauy = sum_tauy + tauy
      end if
    end do
    sum_heat = sum_heat/(day/air_step)
    sum_taux = sum_taux/(day/air_step)
    sum_tauy = sum_tauy/(day/air_step)
    call sea_day(sst, mean, heat_sea, taux_sea, tauy_sea)
    given = merge(sst, 0.0_dp, is_sea > 0)
    call write_sea(4*today, heat_sea)
    call write_sea(4*today + 1, taux_sea)
    call write_sea(4*today + 2, tauy_sea)
    call write_sea(4*today + 3, sst)
  end do

contains

  subroutine write_sea(array, values)
    integer, intent(in) :: array
    real(dp), intent(in) :: values(:)
    call write_part(output//'/ocean.bin', ocean_size, array, pack(all_sea, is_sea > 0), pack(values, is_sea > 0))
  end subroutine

  subroutine read_matrix(path, rows, read_in)
    character(*), intent(in) :: path
    integer, intent(in) :: rows
    type(matrix), intent(out) :: read_in
    integer :: unit, count, link, at
    integer, allocatable :: row(:), column(:), next(:)
    real(dp), allocatable :: weight(:)
    open (newunit=unit, file=path, access='stream', form='unformatted', status='old', action='read')
    read (unit) count
    allocate (row(count), column(count), weight(count))
    read (unit) row, column, weight
    close (unit)
    allocate (read_in%begins(rows + 1), read_in%columns(count), next(rows), source=0)
    allocate (read_in%weights(count))
    do link = 1, count
      next(row(link) + 1) = next(row(link) + 1) + 1
    end do
    read_in%begins(1) = 1
    do at = 1, rows
      read_in%begins(at + 1) = read_in%begins(at) + next(at)
    end do
    next = read_in%begins(:rows)
    do link = 1, count  ! insert the link after those of its row with smaller columns
      at = next(row(link) + 1)
      do while (at > read_in%begins(row(link) + 1))
        if (read_in%columns(at - 1) <= column(link) + 1) exit
        read_in%columns(at) = read_in%columns(at - 1)
        read_in%weights(at) = read_in%weights(at - 1)
        at = at - 1
      end do
      read_in%columns(at) = column(link) + 1
      read_in%weights(at) = weight(link)
      next(row(link) + 1) = next(row(link) + 1) + 1
    end do
  end subroutine

  function times(by, values) result(product)
    type(matrix), intent(in) :: by
    real(dp), intent(in) :: values(:)
    real(dp) :: product(size(by%begins) - 1)
    integer :: row, link
    product = 0
    do row = 1, size(product)
      do link = by%begins(row), by%begins(row + 1) - 1
        product(row) = product(row) + by%weights(link)*values(by%columns(link))
      end do
    end do
  end function

end program
