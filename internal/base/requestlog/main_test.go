package requestlog

import (
	"os"
	"testing"

	"stoa/internal/testkit/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Both(m).Run()) }
