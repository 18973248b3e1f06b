# SPDX-License-Identifier: Apache-2.0
# Draws what tremula_relabel_bench has counted, in the manner of the COSTA paper's Fig. 3:
# gnuplot -e "folder='DIR'" relabel_figure.gp  reads DIR/relabel.csv, writes DIR/relabel.png.
set datafile separator ","
set terminal pngcairo size 1100,620 font "Sans,11" background "white"
set output folder."/relabel.png"
csv = folder."/relabel.csv"

set title "100,000 x 100,000 elements, 10 x 10 grid, row-major to column-major, blocks to 10,000 x 10,000" font ",13"
set xlabel "block of the source"
set ylabel "fewer bytes between processes, %"
set xrange [0:10100]
set yrange [0:105]
set grid ytics lt 1 lc rgb "#dddddd"
set tics nomirror
set border 3 lc rgb "#666666"
set key top left samplen 1.5
plot csv using 1:7 with linespoints pt 7 ps 0.5 lw 2 lc rgb "#0072b2" title "optimal", \
     csv using 1:6 with points pt 6 ps 0.9 lw 1.5 lc rgb "#d55e00" title "greedy"
