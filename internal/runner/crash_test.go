package runner_test

const crashDir = "STOA_RUNNER_CRASH_DIR"

func crashChild(dir string) int { return 0 }
