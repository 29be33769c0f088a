// Package sandboxtest is for tests on systems that cannot confine commands: it starts a program on a kernel that seems to
// have no Landlock.
package sandboxtest
