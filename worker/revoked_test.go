package worker

import "testing"

// Revocations of tasks that never come are forgotten in the end, and not before many others came.
func TestRevokedIsBounded(t *testing.T) {
	var r revoked
	for i := range int64(10 * maxRevoked) {
		r.add(taskID{run: i})
		if n := len(r.young) + len(r.old); n > 2*maxRevoked {
			t.Fatalf("%d entries after %d revocations", n, i)
		}
		if i >= maxRevoked && i%1000 == 0 && !r.remove(taskID{run: i - maxRevoked + 1}) {
			t.Fatalf("revocation %d is forgotten after %d others", i-maxRevoked+1, maxRevoked-1)
		}
	}
	last := taskID{run: 10*maxRevoked - 1}
	if !r.remove(last) || r.remove(last) {
		t.Error("a revocation is taken once")
	}
}
