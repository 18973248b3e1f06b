// SPDX-License-Identifier: Apache-2.0
// Owner of the precompiled headers that tremula_add_test reuses; see CMakeLists.txt.
int main() {}
