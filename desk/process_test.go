package desk_test

func runWorkerProcess() bool { return false }
