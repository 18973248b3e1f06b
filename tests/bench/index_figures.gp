# SPDX-License-Identifier: Apache-2.0
# Draws what tremula_index_bench has measured, in the manner of the ASPEN paper's Figs. 3 (square grids) and 4 (other
# grids):  gnuplot -e "folder='DIR'" index_figures.gp  reads DIR/index.csv, writes DIR/square_grids.png and
# DIR/other_grids.png.
set datafile separator ","
set terminal pngcairo size 1500,1300 font "Sans,11" background "white"
blocks = "1024x1024 256x256 30x50 654x321"
algorithms = "ASPEN FALLS classical ScaLAPACK"
colours = "#0072b2 #d55e00 #009e73 #999999"
csv = folder."/index.csv"

set logscale xy 2
set logscale y 10
set grid ytics lt 1 lc rgb "#dddddd"
set tics font ",9" nomirror
set border 3 lc rgb "#666666"
set format y "%.2g"

do for [experiment in "square other"] {
  set output sprintf("%s/%s_grids.png", folder, experiment)
  set multiplot layout 4,4 margins 0.06,0.98,0.06,0.93 spacing 0.035,0.055 \
    title sprintf("Index calculation of one rank, 10,000 x 10,000 elements, %s grids: median microseconds, memory allocated before the clock starts", experiment) font ",14"
  do for [i = 1:4] {
    do for [j = 1:4] {
      from = word(blocks, i); to = word(blocks, j)
      set title sprintf("%s to %s", from, to) font ",11" offset 0,-0.6
      set xlabel (i == 4 ? "ranks of this side" : "") font ",10"
      set ylabel (j == 1 ? "microseconds" : "") font ",10"
      set xrange [3:1400]
      set yrange [0.02:20]
      if (i == 1 && j == 1) { set key top left font ",9" samplen 1.5 } else { unset key }
      plot for [k = 1:4] \
        sprintf("< awk -F, '$1 == \"paper_%s\" && $2 == \"%s\" && $3 == \"%s\" && $5 == \"%s\"' %s", \
                experiment, from, to, word(algorithms, k), csv) using 4:($6 / 1000) \
        with linespoints pt 7 ps 0.7 lw 2 lc rgb word(colours, k) title word(algorithms, k)
    }
  }
  unset multiplot
}
