! SPDX-License-Identifier: Apache-2.0
! The computations of both models, element by element: the coupled programs and the serial one call the same procedures.
module models
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  public

  integer, parameter :: dp = real64
  integer, parameter :: ocean_nx = 120, ocean_ny = 60, ocean_size = ocean_nx*ocean_ny
  integer, parameter :: air_nx = 180, air_ny = 90, air_size = air_nx*air_ny
  integer, parameter :: day = 86400, air_step = 21600  ! seconds; the ocean makes one step a day

contains

  !> Returns the value of a climatology at a date. The monthly values apply to the middle of each month.
  pure function of_date(months, date) result(value)
    real(dp), intent(in) :: months(12)
    integer, intent(in) :: date  ! seconds since the beginning of a year of 360 days
    real(dp) :: value, place
    integer :: before, after
    place = modulo(real(date, dp)/day/30 - 0.5_dp, 12.0_dp)
    before = int(place)
    after = modulo(before + 1, 12)
    value = months(before + 1) + (place - before)*(months(after + 1) - months(before + 1))
  end function

  !> Returns the sun's heat at a latitude, in W/m2, averaged over the day that contains the date.
  elemental function sun(latitude, date) result(heat)
    real(dp), intent(in) :: latitude
    integer, intent(in) :: date
    real(dp) :: heat, declination, phi, noon
    real(dp), parameter :: pi = 3.14159265358979323846_dp
    declination = -0.409_dp*cos(2*pi*(date/day + 10)/360.0_dp)
    phi = latitude*pi/180
    noon = acos(max(-1.0_dp, min(1.0_dp, -tan(phi)*tan(declination))))
    heat = 1361/pi*(noon*sin(phi)*sin(declination) + cos(phi)*cos(declination)*sin(noon))
  end function

  !> Computes the heat into the sea, in W/m2, and the wind stress on it, in N/m2, with bulk formulae.
  elemental subroutine fluxes(air, humidity, speed, east, north, sunshine, sst, heat, taux, tauy)
    real(dp), intent(in) :: air, humidity, speed, east, north, sunshine, sst  ! C, g/kg, m/s, W/m2, C
    real(dp), intent(out) :: heat, taux, tauy
    real(dp) :: saturated
    real(dp), parameter :: density = 1.2_dp, drag = 1.3e-3_dp
    saturated = 0.98_dp*0.622_dp*6.112_dp*exp(17.67_dp*sst/(sst + 243.5_dp))/1013  ! kg/kg
    heat = 0.55_dp*sunshine - 55 - density*1004*drag*speed*(sst - air) &
      - density*2.5e6_dp*drag*speed*(saturated - humidity*1e-3_dp)
    taux = density*drag*speed*east
    tauy = density*drag*speed*north
  end subroutine

  !> Advances the temperature of the sea's upper layer by a day. Wind makes the layer deeper; its temperature relaxes
  !> towards the mean.
  elemental subroutine sea_day(sst, mean, heat, taux, tauy)
    real(dp), intent(inout) :: sst
    real(dp), intent(in) :: mean, heat, taux, tauy
    real(dp) :: depth
    depth = 30 + 300*sqrt(taux**2 + tauy**2)
    sst = sst + day*(heat - 35*(sst - mean))/(1025*3990*depth)
    sst = max(sst, -1.8_dp)
  end subroutine

  real(dp) function latitude_of_air(element)
    integer, intent(in) :: element  ! counted from 1
    latitude_of_air = -89 + 2.0_dp*((element - 1)/air_nx)
  end function

end module
