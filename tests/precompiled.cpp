// SPDX-License-Identifier: Apache-2.0
// Owns the headers that tremula_add_test has compiled once; see CMakeLists.txt.
int main() {}
