#include "CLibwebsocketsShims.h"
