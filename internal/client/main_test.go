package client_test

import (
	"os"
	"testing"

	"stoa/internal/drive"
	"stoa/internal/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Both(m, drive.Tables()).Run()) }
