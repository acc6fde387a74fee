import Foundation

exit(Touchline.run(Array(CommandLine.arguments.dropFirst())))
