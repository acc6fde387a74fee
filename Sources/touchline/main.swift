import Foundation

exit(Touchline.run(CommandLine.arguments))
